#!/usr/bin/perl

# Redis grants nothing for a while, as after a step of its host's clock. A
# permit that comes free meanwhile serves the next request of its worker at
# once; at the end what is left is granted by Redis.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $state = $t->state;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem api limit=2 queue=10 timeout=50s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @running = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'permits out';
$state->set_shard(recover_until => 40_000 + $state->shard('clock'));
$redis->beats(2, 'heartbeats');

# no request waits when it comes free
for my $n (0, 1) {
    $up->release_nonce($running[$n]->nonce);
    is $running[$n]->wait->status, 200, 'running request ends';
    push @running, $node->begin('/?hang=1');
    eventually { $up->now == 2 } 'its permit is used again';
}
my @waiting = map { $node->begin('/?hang=1') } 1, 2;
$redis->beats(2, 'heartbeats');
is $up->now, 2, 'others wait';
cmp_ok $state->shard('recover_until'), '>', $state->shard('clock'),
    'nothing granted meanwhile';

$state->set_shard(recover_until => 0);
$up->release_all;
eventually { $up->served == 4 && $up->now == 2 } 'others granted';
$up->release_all;
is $_->wait->status, 200, 'request served' for @running[2, 3], @waiting;
is $up->peak, 2, 'limit reached, never exceeded';

$t->done;
