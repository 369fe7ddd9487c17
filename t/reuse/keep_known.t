#!/usr/bin/perl

# After a queue a worker keeps free permits only when a reply has shown that
# Redis knows of it, and would recall them: while the reply is on its way the
# semaphore may have been paused. The clock of the worker stands: a heartbeat
# would send a sync, too, whose reply shows it.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 10s;
location / {
    dsem api limit=2 queue=8 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a queue, and its end

my @requests = map { $node->begin('/?hang=1') } 1 .. 2;
wait_for { $up->now == 2 && $t->state->subscribed == 1 } 15,
    'two at the backend';
$clock->stop;
push @requests, $node->begin('/?hang=1');
wait_for { $t->state->counts('api') eq '2 1' } 15, 'one waits';
$up->release(1);
wait_for { $up->now == 2 && $t->state->counts('api') eq '2 0' } 15,
    'none waits';

# two requests end: of the first Redis hears, and its reply is on its way

$t->state->order('api', '- 1');
$proxy->freeze('s2c');
$up->release(1);
wait_for { $t->state->counts('api') eq '1 0' } 15, 'one given back';
$up->release(1);
wait_for { !$up->now } 15, 'none at the backend';

push @requests, $node->begin('/');
wait_for { $t->state->waiting('api') || $up->served > 3 } 15,
    'the next request';
is($t->state->waiting('api'), 1, 'paused: it waits');
is($up->served, 3, 'not served by a permit that came free');

$proxy->thaw('s2c');
$t->state->drop_orders;
$clock->go;
is($_->wait->status, 200, 'served') for @requests;

$t->done;
