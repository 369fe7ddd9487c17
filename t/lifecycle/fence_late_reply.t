#!/usr/bin/perl

# The reply to a heartbeat comes late, and Redis is lost then. The fence is
# counted from when the heartbeat was sent, as its lease is: own permits serve
# requests until then, and no longer.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s; the fence is at 45
my ($LEASE, $LATE, $PAST) = (60, 30, 20);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 10m;
dsem_lease 60s;
dsem_on_error reject;
location / {
    dsem api limit=2 timeout=10m;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @running = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'both permits in use';

$proxy->freeze('s2c');
$redis->beats(2, 'heartbeats without a reply');
$proxy->swallow(every => 1, match => 'EVALSHA', dir => 'c2s');
$clock->step($LATE);
$proxy->thaw;
wait_for { $proxy->swallowed } 15, 'a heartbeat that is lost';

$proxy->refuse(1);
$proxy->reset;
eventually { $node->grep_log(qr/unavailable/) } 'redis unavailable';
$up->release_all;
is $_->wait->status, 200, 'running request served' for @running;
is $node->get('/?t=1')->status, 200, 'own permit before the fence';
$clock->step($PAST);
is $node->get('/?t=1')->status, 503, 'none after it';

$proxy->swallow;
$proxy->refuse(0);
eventually { $node->get('/?t=1')->status == 200 } 'granted again';
is $up->peak, 2, 'limit reached, never exceeded';

$t->done;
