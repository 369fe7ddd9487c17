#!/usr/bin/perl

# A request has asked, and a permit of its worker comes free and stays idle before
# the reply is late. When it is late the permit serves that request: nothing else
# happens in this worker that would make it look.

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
dsem_reuse 60s;
dsem_lease 60s;
location / {
    dsem api limit=20 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/')->status, 200, 'a permit stays';
wait_for { $t->state->figure('api', 'active') } 15, 'an idle permit';
my $first = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'it serves the next request';

# no timer ends, and the next poll comes in 800 ms: this one comes with a beat,
# whose reply has come at once
my $asked = $redis->calls->{evalsha};
my $passed = $proxy->bytes->{s2c};
$clock->stop->step(1.5);
wait_for { $redis->calls->{evalsha} > $asked } 15, 'a beat';
wait_for { $proxy->bytes->{s2c} > $passed } 15, 'its reply';
$proxy->freeze('s2c');
my $second = $node->begin('/?hang=1');
wait_for { $t->state->held('api') == 2 } 15, 'another one has asked';
$clock->step(0.02);
$up->release(1);
is $first->wait->status, 200, 'first served';
$node->logged($first);
is $up->now, 0, 'its permit is idle';

# a reply is late after 30 ms
$clock->step(0.02);
eventually { $up->now == 1 } 'it serves the request that has asked'
    or die;
my $third = $node->begin('/');
$proxy->thaw('s2c');
$clock->go;
$up->release_all;
is $_->wait->status, 200, 'served' for $second, $third;
# what is idle stays for a minute
$node->quit;

$t->done;
