#!/usr/bin/perl

# Redis becomes unavailable under load, with all permits in one worker. During
# its lease only that worker serves, because Redis counts the permits as its
# own; after the fence no more than its share. Then each worker has its share. The upstream never sees more than the
# limit. When Redis is available again, any worker may use the whole limit.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LIMIT, $SHARE, $LEASE, $HEARTBEAT) = (6, 2, 1, 0.2);

# ms; nearly a quarter of the lease, so that those that begin right before the
# fence end right before the others begin
my @LONG = (200, 220, 160);
my @SHORT = (300, 400);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my @fleet = $t->fleet(3, <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 300ms;
    dsem_redis_timeout 300ms;
    dsem_node %%NODE%%;
    dsem_lease 1s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /local {
            dsem api limit=6 queue=60 timeout=20s;
            proxy_set_header X-Sem %%NODE%%;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my ($all, @none) = @fleet;

sub load_on {
    my ($node, @ms) = @_;
    return $t->load_start(urls => [ map { $node->url("/local?t=$_") } @ms ],
        clients => 8, seconds => 60);
}

# the most concurrent requests of a node between two moments
sub most {
    my ($node, $from, $to) = @_;
    my ($most, $before) = (0, 0);
    for ($up->levels($node)) {
        my ($time, $level) = @$_;
        $most = $before if $time > $from && $before > $most;
        last if $time > $to;
        $before = $level;
    }
    return $before > $most ? $before : $most;
}

sub outage {
    my ($how, $goes, $comes) = @_;
    $up->reset;
    my $first = load_on($all, @LONG);
    wait_for { $up->now('n1') == $LIMIT && $up->served > 2 } 15,
        'all permits in one worker';
    $redis->beats(2 * @fleet, 'each to have seen the others');
    $goes->();
    my $gone = now;
    my $tried = $proxy->accepted;
    # later requests see the share sooner after the lease
    wait_for { now > $gone + 0.45 } 15, 'half a lease';
    my @others = map { load_on($_, @SHORT) } @none;

    eventually { $up->now('n2') && $up->now('n3') }
        "$how: all workers serve eventually", $LEASE + 4;
    my ($start) = sort { $a <=> $b } map { $_->{start} }
        grep { $_->{sem} ne 'n1' } $up->log;
    cmp_ok $start - $gone, '>', $LEASE - $HEARTBEAT - 0.1,
        "$how: others wait one lease";
    cmp_ok $start - $gone, '<', 2 * $LEASE + 4,
        "$how: others serve after lease";
    ok scalar(grep { $_->{sem} eq 'n1' && $_->{start} > $gone + 0.5 }
            grep { $_->{start} < $start } $up->log),
        "$how: holder keeps serving";

    # requests running at the cut have ended
    my $shared = $start + 1.4;
    wait_for { now > $shared + 0.4 } 15, 'all workers to serve';
    is most($_->name, $shared, now), $SHARE, "$how: equal shares"
        for @fleet;
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    my $seconds = now - $gone;
    my $tries = $proxy->accepted - $tried;
    # two connections, each after a pause of 7/48 of the lease on the average
    cmp_ok $tries, '<', @fleet * 4 * 48 / 7 / $LEASE * $seconds + 20,
        "$how: few reconnect attempts";

    $tried = $proxy->accepted;
    $comes->();
    my $back = now;
    $_->stop for @others;
    eventually { $up->now('n1') == $LIMIT } "$how: one worker uses all", 10;
    my $took = now - $back;
    cmp_ok $took, '<', 5, "$how: reconnected in time";
    cmp_ok $proxy->accepted - $tried, '<', 8 * @fleet, "$how: no stampede";
    is $up->peak, $LIMIT, "$how: limit kept on return";

    my @ended = map { $_->stop->wait } $first, @others;
    my %status;
    for my $result (@ended) {
        my $of = $result->{statuses};
        $status{$_} += $of->{$_} for keys %$of;
    }
    is_deeply [ keys %status ], [200], "$how: all requests served"
        or diag explain \%status;
    my %said;
    $said{ $_->{dsem_status} }++ for map { $_->access_log } @none;
    ok $said{DEGRADED}, "$how: status is DEGRADED";
    is scalar(map { $_->grep_log(qr/unavailable \(/) } @fleet), 3,
        "$how: one outage line each";
    is scalar(map { $_->grep_log(qr/available again/) } @fleet), 3,
        "$how: one recovery line each";
    note sprintf '%s: others after %.2f s, back after %.2f s, %d attempts '
        . 'in %.1f s', $how, $start - $gone, $took, $tries, $seconds;
    $_->clear_logs for @fleet;
    wait_for { !Dsem::Teardown::left_in($redis) } 15, 'the end';
}

outage('cut', sub { $proxy->refuse; $proxy->cut },
    sub { $proxy->refuse(0) });
outage('frozen', sub { $redis->freeze }, sub { $redis->thaw });
outage('stopped', sub { $redis->kill }, sub { $redis->start })
    if $ENV{DSEM_LONG};

$t->done;
