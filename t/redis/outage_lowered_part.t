#!/usr/bin/perl

# The connection to Redis is lost when an order has lowered a limit from 10 to 8,
# which two workers use alike. Of the two permits that have to go back each
# holds back one, not both.

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
    dsem $arg_name limit=10 queue=20 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
sub begin_requests {
    my ($n) = @_;
    return map { my $node = $_;
        map { $node->begin('/?hang=1&name=api') } 1 .. $n } @nodes;
}

$redis->all_beat(2);
my @runs = begin_requests(5);
wait_for { $up->now == 10 } 15, 'ten at the backend';
$state->order('api', '8 0');
my @waits = begin_requests(6);
wait_for { $state->waiting('api') == 12 } 15, 'others wait';
is $_->get('/?name=last')->status, 200, 'no reply awaited' for @nodes;

$proxy->refuse(1);
$proxy->reset;
for my $node (@nodes) {
    wait_for { scalar $node->grep_log(qr/redis \S+ unavailable/) } 15,
        'no Redis';
}
$up->release_nonce($_->nonce) for @runs;
is $_->wait->status, 200, 'one that ran ends' for @runs;
eventually { $up->now == 8 } 'eight of the others are served';

my $started = $up->started;
$up->release_nonce(($up->order)[-1]);
eventually { $up->started == $started + 1 } 'and the next one';
is $up->now, 8, 'no more than the new limit';

$proxy->refuse(0);
wait_for { $up->release_all; !grep { !$_->done } @waits } 30, 'all end';
is $_->status, 200, 'served' for @waits;

$t->done;
