#!/usr/bin/perl

# Redis recovers for long when an order has lowered a limit from 10 to 8, which
# two workers use alike. None has more than the limit alone, and of the two
# permits that have to go back each holds back one, until the order has ended.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my (@nodes) = $t->fleet(3, <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem $arg_name limit=10 queue=20 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $missing = pop @nodes;

my $state = $t->state;
sub begin_requests {
    my ($n) = @_;
    return map { my $node = $_;
        map { $node->begin('/?hang=1&name=api') } 1 .. $n } @nodes;
}

$redis->all_beat(3);
my @runs = begin_requests(5);
wait_for { $up->now == 10 } 15, 'ten at the backend';
$state->order('api', '8 0');
my @waits = begin_requests(6);
wait_for { $state->waiting('api') == 12 } 15, 'others wait';
is $_->get('/?name=last')->status, 200, 'no reply awaited' for @nodes;

$missing->freeze;
# at once: the first reply of the recovery has the order again
$redis->cmd('EVAL', "redis.call('DEL', KEYS[1])
    return redis.call('HSET', KEYS[1], 'order:api', '8 0')", 1, $state->key);
for my $node (@nodes) {
    wait_for { scalar $node->grep_log(qr/lost its state/) } 15, 'lost';
}
wait_for { $state->held('api') == 10 } 15, 'declared';
$redis->beats(6, 'a poll of each');
$up->release_nonce($_->nonce) for @runs;
is $_->wait->status, 200, 'one that ran ends' for @runs;
eventually { $up->now == 8 } 'eight of the others are served';

my $started = $up->started;
$up->release_nonce(($up->order)[-1]);
eventually { $up->started == $started + 1 } 'and the next one';
is $up->now, 8, 'no more than the new limit';
ok $redis->recovering, 'Redis recovers';

$state->drop_orders;
eventually { $up->now == 10 } 'the end of the order ends it';
ok $redis->recovering, 'Redis still recovers';

$missing->thaw;
wait_for { $up->release_all; !grep { !$_->done } @waits } 60, 'all end';
is $_->status, 200, 'served' for @waits;

$t->done;
