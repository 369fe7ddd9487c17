#!/usr/bin/perl

# An outage of Redis, for all, that is longer than a lease: there are more
# workers than permits, and each admits one request. These end before Redis has
# recovered: what was above the limit is counted all the same, once in the
# fleet.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s; of a recovery, and of its last part
my $LEASE = 3600;
my ($PAUSE, $LAST) = ($LEASE / 4, $LEASE / 32);
my $NODES = 4;

my $t = Dsem::Test->new(lease => $LEASE);
my $wall = Dsem::Clock->new($t);
my $clock = Dsem::Clock->new($t, monotonic => 1, name => 'monotonic');
my $redis = $wall->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my @nodes = $clock->fleet($NODES, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 1h;
dsem_redis_connect_timeout 300ms;
location / {
    dsem api limit=1 queue=10 timeout=3h;
    proxy_read_timeout 3h;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
wait_for { $t->state->session_count == $NODES } 15, 'all sessions';
$redis->all_beat($NODES);

$proxy->refuse;
$proxy->cut;
for my $node (@nodes) {
    wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'an outage';
}
$_->step($LEASE + 2) for $wall, $clock;
my @runs = map { $_->begin('/?hang=1') } @nodes;
wait_for { $up->now == $NODES } 15, 'each admits one';

$proxy->refuse(0);
for my $node (@nodes) {
    wait_for { $node->grep_log(qr/available again/) } 15, 'Redis again';
}
$up->release_all;
is $_->wait->status, 200, 'served' for @runs;
ok $redis->recovering, 'before the end of the recovery';

sub counted {
    my $sum = 0;
    for my $node (@nodes) {
        my ($n) = $node->get('/dsem/metrics')->body
            =~ /^dsem_overage_permits_total\{[^}]*"api"\} (\d+)$/m;
        $sum += $n // 0;
    }
    return $sum;
}
$_->step($PAUSE - $LAST / 2) for $wall, $clock;
eventually { counted() == $NODES - 1 } 'all but one are counted';

$_->step($LAST) for $wall, $clock;
wait_for { !$t->state->held('api') } 15, 'all permits are back';
is counted(), $NODES - 1, 'and no more';

$t->done;
