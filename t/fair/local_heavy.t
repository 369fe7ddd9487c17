#!/usr/bin/perl

# While Redis is unavailable requests that are heavier than all that their worker
# may admit have all places of its queue. The last one of their key leaves for a
# light one of another key, which waits for a permit.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my ($node) = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 1s;
dsem_reuse off;
dsem_lease 1s;
location / {
    dsem db limit=6 queue=8 timeout=60s weight=$arg_w fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# each has seen the other: a share of 3 permits and of 4 places
$redis->all_beat(2);
my $gone = now;
$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { now > $gone + 3 * $LEASE } 15, 'the end of the lease';

my @held = map { $node->begin('/?k=holder&w=1&hang=1') } 1 .. 3;
wait_for { $up->now == 3 } 15, 'all permits of the share are in use';
my @heavy = map { $node->begin("/?k=heavy&w=4&n=$_") } 1 .. 5;
eventually { 1 == grep { $_->done } @heavy } 'heavy ones have all places';
my $light = $node->begin('/?k=light&w=1&t=1');
eventually { 2 == grep { $_->done } @heavy, $light } 'one leaves';
ok !$light->done, 'the light one waits';

$up->release_all;
is $_->wait->status, 200, 'served' for @held, $light;
$proxy->refuse(0);
is scalar(grep { $_->wait->status == 200 } @heavy), 3, 'three heavy ones served';

$t->done;
