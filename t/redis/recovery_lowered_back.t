#!/usr/bin/perl

# By an order two permits more are in use than the limit. The two that come free
# while Redis is unavailable go back; then Redis recovers for long, and each
# further one serves the next request.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my ($node, $missing) = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem $arg_name limit=4 queue=20 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
$redis->all_beat(2);
my @runs = map { $node->begin('/?hang=1&name=api') } 1 .. 4;
wait_for { $up->now == 4 } 15, 'four at the backend';
$state->order('api', '2 0');
my @waits = map { $node->begin('/?hang=1&name=api') } 1 .. 4;
wait_for { $state->waiting('api') == 4 } 15, 'four wait';
is $node->get('/?name=last')->status, 200, 'no reply awaited';

$proxy->refuse(1);
$proxy->reset;
wait_for { scalar $node->grep_log(qr/redis \S+ unavailable/) } 15, 'no Redis';
sub end_one {
    my $first = shift @runs;
    $up->release_nonce($first->nonce);
    is $first->wait->status, 200, 'one ends';
}
end_one() for 1, 2;
is $up->now, 2, 'their permits serve none';

$missing->freeze;
# at once: the first reply of the recovery has the order again
$redis->cmd('EVAL', "redis.call('DEL', KEYS[1])
    return redis.call('HSET', KEYS[1], 'order:api', '2 0')", 1, $state->key);
$proxy->refuse(0);
wait_for { scalar $node->grep_log(qr/available again/) } 15, 'Redis is back';
wait_for { $state->held('api') == 2 } 15, 'declared';
for my $n (1, 2) {
    end_one();
    eventually { $up->now == 2 } 'its permit serves the next one';
}
ok $redis->recovering, 'Redis recovers';

$missing->thaw;
wait_for { $up->release_all; !grep { !$_->done } @waits } 60, 'all end';
is $_->status, 200, 'served' for @waits;

$t->done;
