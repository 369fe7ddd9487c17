#!/usr/bin/perl

# The connection to Redis is lost when an order has lowered a limit from 8 to 6,
# which two workers use alike: of four permits each may have three out. A request
# of weight 4 waits for Redis, and a lighter one behind it is served.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my @nodes = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem $arg_name limit=8 queue=20 timeout=60s weight=$arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
$redis->all_beat(2);
my @runs = map { my $node = $_;
    map { $node->begin('/?hang=1&name=api') } 1 .. 4 } @nodes;
wait_for { $up->now == 8 } 15, 'eight at the backend';
$state->order('api', '6 0');
my $heavy = $nodes[0]->begin('/?hang=1&name=api&weight=4');
wait_for { $state->waiting('api') == 1 } 15, 'a heavy one waits';
my $light = $nodes[0]->begin('/?hang=1&name=api');
wait_for { $state->waiting('api') == 2 } 15, 'a light one behind it';
is $nodes[0]->get('/?name=last')->status, 200, 'no reply awaited';

$proxy->refuse(1);
$proxy->reset;
wait_for { scalar $nodes[0]->grep_log(qr/redis \S+ unavailable/) } 15,
    'no Redis';
for my $run (@runs[0, 1]) {
    $up->release_nonce($run->nonce);
    is $run->wait->status, 200, 'one ends';
}
eventually { grep { $_ eq $light->nonce } $up->order } 'the light one is served';

$proxy->refuse(0);
wait_for { $up->release_all; !grep { !$_->done } @runs, $heavy, $light } 30,
    'all end';
is $_->status, 200, 'served' for $heavy, $light;

$t->done;
