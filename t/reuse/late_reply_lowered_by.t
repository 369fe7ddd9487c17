#!/usr/bin/perl

# A reply is late, and by the one before one permit more is in use than the
# lowered limit: of those that come free one goes back, and the others serve
# requests that wait here.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 60s;
dsem_lease 60s;
location / {
    dsem a limit=10 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=1;
    empty_gif;
}
EOF_CONF

my $state = $t->state;
my @runs;
for my $n (1 .. 10) {
    push @runs, $node->begin('/?hang=1');
    wait_for { $up->now == $n } 15, "$n at the backend";
}
$state->order('a', '9 0');
my @waits;
for my $n (1 .. 3) {
    push @waits, $node->begin('/?hang=1');
    wait_for { $state->waiting('a') == $n } 15, "$n wait";
}

$clock->stop;
# comes behind the replies to them, and to each heartbeat
is $node->get('/other')->status, 200, 'no reply awaited';
$proxy->freeze('s2c');
push @waits, $node->begin('/?hang=1');
wait_for { $state->waiting('a') == 4 } 15, 'another one asks';
$clock->step(10);
$up->release(3);
wait_for { 3 == grep { $_->done } @runs } 15, 'three end';
eventually { $up->started == 12 } 'two serve others';

$proxy->thaw('s2c');
$clock->go;
wait_for { $state->held('a') == 9 } 15, 'one permit is back';
is $up->started, 12, 'and has served nobody';

$up->release_all;
is $_->wait->status, 200, 'served' for @runs;
# those that wait still hang when they are served
wait_for { $up->release_all; 4 == grep { $_->done } @waits } 15, 'all end';
is $_->status, 200, 'served later' for @waits;
is $up->started, 14, 'each once';

$t->done;
