#!/usr/bin/perl

# Workers and Redis are stopped under load, for shorter or longer than a lease.
# The upstream never sees more than the limit, but for requests that a worker
# admitted before it was stopped and sent after its lease had expired: the
# worker logs their number. While Redis is stopped for longer, shares of the
# limit are served ("dsem_on_error local"): there the limit is promised where
# no request takes longer than a quarter of the lease, which a busy machine may
# not keep. Service continues, and nothing is held in the end.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(sum0);
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LIMIT, $LEASE) = (8, 1);

# seconds
my @STOPS = $ENV{DSEM_LONG}
    ? (0.1, 0.2, 0.4, 0.7, 0.9, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8,
        0.3, 0.6, 0.8, 1.1, 1.7)
    : (0.1, 0.4, 0.9, 1.4);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_redis_timeout 300ms;
dsem_lease 1s;
location /storm {
    dsem api limit=8 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $load = $t->load_start(clients => 24, seconds => 600,
    urls => [ map { my $t = $_; map { $_->url("/storm?t=$t") } @fleet }
        30, 70, 50 ]);
wait_for { $up->now == $LIMIT } 15, 'load';

# The most concurrent requests above the limit at the upstream.
sub stands_still {
    my ($seconds, $stop, $go) = @_;
    $up->reset;
    $stop->();
    my $stopped = now;
    wait_for { now > $stopped + $seconds } 20, 'the time to pass';
    $go->();
    eventually { $up->now == $LIMIT } "$seconds s: limit reached again";
    my $served = $up->served;
    # a stopped worker keeps clients, which the other workers lack
    wait_for { $up->served > $served + 30 && $up->now == $LIMIT } 30,
        'the load at its limit';
    return $up->peak - $LIMIT;
}

# Requests admitted before the stop and sent after it.
sub let_in_before {
    my ($node, $seconds, $went) = @_;
    my %sent = map { $_->{nonce} => 1 } grep { $_->{start} > $went } $up->log;
    return scalar grep {
        $sent{ $_->{http_x_nonce} }
            && $_->{request_time} - ($_->{dsem_wait_time} || 0) > $seconds / 2
    } $node->access_log;
}

# Requests that have taken longer than a quarter of the lease since they were
# admitted.
sub outlived {
    my %begun = map { $_->{nonce} => 1 } $up->log;
    return scalar grep {
        $begun{ $_->{http_x_nonce} }
            && $_->{request_time} - ($_->{dsem_wait_time} || 0) > $LEASE / 4
    } map { $_->access_log } @fleet;
}

# The sum of all overages that a worker has logged, or all workers.
sub overage {
    my ($pid) = @_;
    $pid //= qr/\d+/;
    return sum0 map { /overage of (\d+)/ }
        map { $_->grep_log(qr/ $pid#.*the lease of this worker expired/) }
        @fleet;
}

my $i = 0;
for my $seconds (@STOPS) {
    my $node = $fleet[ $i++ % 2 ];
    my ($pid) = $node->workers;
    my $before = overage($pid);
    my $went;
    my $above = stands_still($seconds, sub { $node->freeze($pid) },
        sub { $went = now; $node->thaw($pid) });
    cmp_ok $above, '<=', $above && let_in_before($node, $seconds, $went),
        "worker, $seconds s: limit kept but for earlier requests";
    cmp_ok $above, '<=', overage($pid) - $before, 'overage logged';
    note "$above above the limit" if $above;
    # a busy machine may stop a worker, too
    $before = overage();
    $above = stands_still($seconds, sub { $redis->freeze },
        sub { $redis->thaw });
    cmp_ok $above, '<=', overage() - $before + ($above && outlived()),
        "redis, $seconds s: limit kept but for logged overage";
    note overage() - $before, " logged";
}

my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'each response complete';
# permits of an expired session are reclaimed when a request asks
my @all = map { $fleet[ $_ % 2 ]->begin('/storm?hang=1') } 1 .. $LIMIT;
eventually { $up->now == $LIMIT } 'all permits available';
$up->release_all;
is $_->wait->status, 200, 'request served' for @all;
eventually { !$t->state->exists('api') } 'nothing held, none waiting';
eventually { $t->state->session_count == 4 } 'only live sessions';

$t->done;
