#!/usr/bin/perl

# While Redis is unavailable each worker's own queue is fair: keys take turns,
# and in a full queue the last request of the longest backlog is rejected for
# one of another key. Classes are outside of that, and so are requests that may
# not wait, or have no key. One worker has a semaphore for each of these cases.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $proxy = $t->proxy($redis->address);

my $node = $clock->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_reuse off;
dsem_lease 1s;
dsem_log_level info;
location /turns {
    dsem turns limit=1 queue=6 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /classes {
    dsem classes limit=1 queue=8 timeout=20s priority=$arg_p fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /may-wait {
    dsem may-wait limit=1 queue=4 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /may-wait/not {
    dsem may-wait limit=1 queue=0 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /key {
    dsem key limit=1 queue=7 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /key/none {
    dsem key limit=1 queue=7 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub said { join ' ', @{ $_[0]->logged($_[1]) }{qw(status dsem_status)} }

# A request for each of the others, by its arguments; is: nonce => this.
my (%is, $sem, $n);
sub ask {
    my ($path, @args) = @_;
    return map {
        my $request = $node->begin("$path?$_&t=2&n=" . ++$n, 'X-Sem' => $sem);
        $is{ $request->nonce } = $_;
        $request;
    } @args;
}

my %holder;
for (qw(turns classes may-wait key)) {
    $holder{$_} = $node->begin("/$_?k=holder&hang=1", 'X-Sem' => $_);
}
wait_for { $up->now == keys %holder } 15, 'the holders';

# The holder of the semaphore ends; nonces of the others as they are served.
sub serve {
    my @requests = @_;
    $up->release_nonce($holder{$sem}->nonce);
    is $_->wait->status, 200, "$sem: request served"
        for $holder{$sem}, @requests;
    is $up->peak($sem), 1, "$sem: limit reached, never exceeded";
    my %of = map { $_->nonce => 1 } @requests;
    return grep { $of{$_} } $up->order;
}

# two wait when Redis goes away, the others come later

$sem = 'turns';
my @heavy = ask('/turns', ('k=heavy') x 2);
wait_for { $t->state->waiting('turns') == 2 } 15, 'two waiting';

my $gone = now;
$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { now > $gone + 1.5 * $LEASE } 15, 'the end of the lease';
# no request is a slow one
$clock->stop;

push @heavy, ask('/turns', ('k=heavy') x 4);

# a rejection says that all before it have been read

is said($node, $node->get('/turns?k=heavy')), '503 REJECTED', 'queue is full';
my @light = ask('/turns', ('k=light') x 2);
is said($node, $_->wait), '503 REJECTED', 'last of the backlog rejected'
    for @heavy[4, 5];
ok !$_->done, 'request waits' for @light, @heavy[0 .. 3];

my @served = serve(@light, @heavy[0 .. 3]);
my @order = @is{@served};
is scalar(grep { $_ eq 'k=light' } @order[0 .. 4]), 2, 'keys take turns'
    or note "@order";
is_deeply [grep { $is{$_} eq 'k=heavy' } @served],
    [map { $_->nonce } @heavy[0 .. 3]], 'order inside the key';

# What a key has in one class says nothing of its turns in another one, and a
# full queue rejects a request of the worst class, whatever its key.

$sem = 'classes';
my @all = ask('/classes', ('k=a&p=-2') x 4, ('k=b&p=0') x 2, 'k=a&p=0',
    'k=a&p=1');
is said($node, $node->get('/classes?k=c&p=2')), '503 REJECTED',
    'worst class rejected by a full queue';

# the key with the longest backlog, and one without any

push @all, ask('/classes', 'k=a&p=0');
is said($node, $all[7]->wait), '503 REJECTED', 'request of the worst class';
is said($node, $node->get('/classes?k=c&p=1')), '503 REJECTED',
    'worse class rejected, whatever its key';
ok !$_->done, 'request waits' for @all[0 .. 6, 8];

@order = @is{ serve(@all[0 .. 6, 8]) };
is_deeply [@order[0 .. 3]], [('k=a&p=-2') x 4], 'best class first'
    or note "@order";
is $order[5], 'k=a&p=0', 'in its turn after many of another class'
    or note "@order";

# A request of a location without a queue is rejected where it would have to
# wait: it does not take the place of another one, whatever their keys.

$sem = 'may-wait';
@heavy = ask('/may-wait', ('k=heavy') x 4);
is said($node, $node->get('/may-wait?k=heavy')), '503 REJECTED',
    'queue is full';
is said($node, $node->get('/may-wait/not?k=light')), '503 REJECTED',
    'no queue: rejected';
ok !$_->done, 'request waits' for @heavy;
my ($light) = ask('/may-wait', 'k=light');
is said($node, $heavy[3]->wait), '503 REJECTED',
    'with a queue: last of the backlog rejected';
serve($light, @heavy[0 .. 2]);

# A request without "fair" waits behind those of its priority that wait in the
# worker already, and before those that are placed behind it later.

$sem = 'key';
@all = map { ask($_ eq 'plain' ? '/key/none' : '/key', "k=$_") }
    ('heavy') x 3, 'plain', ('heavy') x 2, 'light';
is said($node, $node->get('/key/none')), '503 REJECTED', 'queue is full';
@order = @is{ serve(@all) };
my ($plain) = grep { $order[$_] eq 'k=plain' } 0 .. $#order;
my @before = @order[0 .. $plain - 1];
is scalar(grep { $_ eq 'k=heavy' } @before), 3, 'behind those that waited'
    or note "@order";
is scalar(grep { $_ eq 'k=light' } @before), 1, 'another key has its turn'
    or note "@order";

$clock->go;
$proxy->refuse(0);
$t->done;
