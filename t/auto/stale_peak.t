#!/usr/bin/perl

# A rejected request shows that all permits are in use. After a pause, in which
# clients leave early at most, it shows nothing any more: the next request has
# one permit. Where it is rejected during that request it counts.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s; a worker that has been silent for ten begins its sample anew
my @PAUSES = (4, 4, 3);

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 30s;
location /before {
    dsem before limit=auto;
    proxy_pass http://%%UPSTREAM%%;
}
location /during {
    dsem during limit=auto;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# the pauses are steps of its clock
my $one = $clock->node('one', $conf);
my $other = $t->node('other', $conf);

# All permits that are left go to the other node, so the first one is rejected.
# The running requests end, those of the first node too.
sub reject {
    my ($name) = @_;
    my @running = map { $other->begin("/$name?hang=1") } $up->now + 1 .. 10;
    wait_for { $up->now == 10 } 15, 'all permits in use';
    is $one->get("/$name")->status, 503, "$name: rejected";
    $up->release_all;
    is_deeply [ grep { $_->wait->status ne 200 } @running ], [],
        'the others served';
    wait_for { !$t->state->held($name) } 15, 'all permits free';
}

wait_for { $t->state->session_count == 2 } 15, 'sessions';
my $usual = $one->begin('/before?hang=1');
wait_for { $up->now == 1 } 15, 'a request';
$clock->step(3);
$up->release_all;
is $usual->wait->status, 200, 'a request of usual length';
wait_for { $redis->cmd('EXISTS', $t->state->auto_key('before')) } 15,
    'its sample';

my $monitor = $t->client->raw('127.0.0.1', $redis->port);
$monitor->send("MONITOR\r\n")->read_until(qr/OK/);
my $seen = '';

# The most permits in use, as the next sample of the first node says.
sub peak {
    my ($name) = @_;
    my $session = $one->name;
    my $peak;
    wait_for {
        $seen .= $monitor->read(0.1);
        ($peak) = $seen
            =~ /"\Q$session\E:[^"]*" "[\d ]+" "$name" "1 \d+ 0 (\d+) [\d ]+"/;
        defined $peak;
    } 15, "$name: a sample";
    return $peak;
}

reject('before');
for my $pause (@PAUSES[0, 1]) {
    $clock->step($pause);
    my $left = $one->begin('/before?hang=1');
    wait_for { $up->now == 1 } 15, 'a request';
    $left->abort;
    wait_for { $up->now == 0 } 15, 'its end';
}
$clock->step($PAUSES[2]);

is $one->get('/before?t=1')->status, 200, 'a request';
is peak('before'), 1, 'has one permit';

my $running = $one->begin('/during?hang=1');
wait_for { $up->now == 1 } 15, 'a request of another name';
reject('during');
is $running->wait->status, 200, 'a request';
is peak('during'), 10, 'all permits were in use';

$t->done;
