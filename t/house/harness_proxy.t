#!/usr/bin/perl

# The proxy that plays the network: each fault does what it says, seen with
# a Redis behind it.

use lib 't/lib';
use Dsem::Client::Raw;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);

sub open_one {
    return Dsem::Client::Raw->new(split /:/, $proxy->address);
}

# the answer to a PING, or as much of it as comes
sub ping {
    my ($raw, $timeout) = @_;
    return $raw->send("PING\r\n")->read($timeout);
}

my $raw = open_one();
is(ping($raw), "+PONG\r\n", 'bytes passed on');
is($proxy->accepted, 1, 'connection counted');
is_deeply($proxy->bytes, { c2s => 6, s2c => 7 }, 'bytes counted');

my $executed = $redis->calls->{ping};
$proxy->freeze('s2c');
is(ping($raw, 0.1), '', 'no reply passed');
$executed++;
eventually { $redis->calls->{ping} == $executed } 'command executed';
$proxy->thaw;
is($raw->read, "+PONG\r\n", 'reply at the thaw');

$proxy->freeze('c2s');
is(ping($raw, 0.1), '', 'no command passed');
is($redis->calls->{ping}, $executed, 'command not executed');
$proxy->thaw;
is($raw->read, "+PONG\r\n", 'command executed at thaw');

$proxy->freeze;
my $late = open_one();
is(ping($late, 0.1), '', 'new connection hangs too');
$proxy->thaw;
is($late->read, "+PONG\r\n", 'new connection served');

$proxy->delay(0.1);
my $start = now;
is(ping($raw), "+PONG\r\n", 'delayed');
cmp_ok(now - $start, '>=', 0.2, 'delayed both ways');
$proxy->delay(0);

my $pieces = $proxy->pieces->{s2c};
$proxy->slice(1);
$raw->send("PING\r\n");
is($raw->read_until(qr/\n/), "+PONG\r\n", 'sliced');
is($proxy->pieces->{s2c}, $pieces + 7, 'byte by byte');
$proxy->slice(0);

is($proxy->cut, 2, 'connections cut');
is($raw->read, '', 'ended');
is($raw->error, undef, 'with FIN');
is($late->read, '', 'other connection ended');

$raw = open_one();
is(ping($raw), "+PONG\r\n", 'connected again');
$proxy->reset;
$raw->read;
like($raw->error, qr/reset/, 'ended with RST');

$raw = open_one();
$proxy->cut_after(3, 's2c');
like(ping($raw) . $raw->read, qr/^(?:\+PO)?$/, 'cut within the answer');
ok($raw->eof, 'ended');

$proxy->refuse;
ok(!eval { open_one() }, 'refused');
$proxy->refuse(0);
is(ping(open_one()), "+PONG\r\n", 'connections accepted again');

# whole frames are lost, and no other

$raw = open_one();
$raw->send("SUBSCRIBE news\r\n")->read_until(qr/:1\r\n/);
$proxy->swallow(every => 2);
$redis->cmd('PUBLISH', 'news', "text$_") for 1 .. 4;
is_deeply([$raw->read_until(qr/text3\r\n/) =~ /(text\d)/g],
    ['text1', 'text3'], 'every second message lost');
eventually { $proxy->swallowed == 2 } 'losses counted';
$proxy->swallow(match => '^\+PONG', count => 1);
my $other = open_one();
is(ping($other, 0.1), '', 'one reply lost');
is(ping($other), "+PONG\r\n", 'next reply passed');
$proxy->swallow;
$redis->cmd('PUBLISH', 'news', 'text5');
like($raw->read_until(qr/text5\r\n/), qr/text5/, 'no more losses');

my $second = $t->redis;
$second->cmd('SET', 'who', 'second');
$proxy->retarget($second->address);
is(open_one()->send("GET who\r\n")->read, "\$6\r\nsecond\r\n", 'retargeted');
