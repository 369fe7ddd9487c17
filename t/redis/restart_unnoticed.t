#!/usr/bin/perl

# Redis restarts empty under full load, and nobody loses by it: the workers'
# own permits stay in use, no request is refused, none times out. DSEM_LONG=1:
# 10 rounds of two restarts.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 8;
my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 1;
# of the permits in use before, in the worst second; other tests need the
# machine as well
my $BOUND = $ENV{DSEM_LONG} ? 0.9 : 0.5;

# seconds, longer than the recovery
my $AFTER = $ENV{DSEM_LONG} ? 3 : 1.4;

my $t = Dsem::Test->new(lease => 20);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 1s;
dsem_lease 20s;
location /patient {
    dsem api limit=8 queue=400 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /hasty {
    dsem api limit=8 queue=400 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# with a Redis of its own, so that both outages last at the same time
sub lane {
    my ($name, $down, @paths) = @_;
    my $lane = { name => $name, down => $down, redis => $t->redis,
        up => $t->upstream(service => 0.050) };
    $lane->{fleet} = [ map { $t->node("$name$_", $conf) } 1, 2 ];
    $lane->{urls} = [ map { my $node = $_; map { $node->url($_) } @paths }
        @{ $lane->{fleet} } ];
    return $lane;
}

sub load {
    my ($lane) = @_;
    $lane->{up}->reset;
    $lane->{load} = $t->load_start(urls => $lane->{urls}, clients => 40,
        seconds => 3600, timeout => 40, keepalive => 1);
}

# Redis goes while requests have just begun. Between two of them a permit is on
# its way to another worker: lost with the connection, it comes back with the
# recovery only.
sub loses {
    my ($lane) = @_;
    my ($up, $started) = ($lane->{up}, 0);
    wait_for {
        my $before = $started;
        $started = $up->started;
        $before && $started > $before && $up->now == $LIMIT;
    } 15, 'requests that have just begun';
    $lane->{lost} = now;
    $lane->{redis}->kill;
}

sub returns {
    my ($lane) = @_;
    wait_for { now - $lane->{lost} > $lane->{down} } 15, 'the outage';
    $lane->{redis}->start;
    $lane->{back} = now;
}

sub followed {
    my ($lane, $n) = @_;
    my ($up, $lost, $back) = @$lane{qw(up lost back)};
    my $name = "$n: $lane->{name} outage";
    wait_for { now - $back > $AFTER } 10, 'what follows';

    # those that began in the outage wait on, until they are served
    my $statuses = $lane->{load}->stop->wait->{statuses};
    is $up->peak, $LIMIT, "$name: limit reached, never exceeded";
    is_deeply [ keys %$statuses ], [200], "$name: every request served"
        or diag explain $statuses;
    my $before = $up->goodput($LIMIT, $lost - 0.5, $lost);
    my $worst = $up->worst($LIMIT, $lost, $back + $AFTER) / $before;
    cmp_ok $worst, '>=', $BOUND, "$name: permits stay in use";
    note sprintf '%s: %.3f of %.3f in use, %d served', $name, $worst, $before,
        $statuses->{200};
}

# the one that returns first comes first
my @lanes = (lane('short', 0.3, qw(/patient /hasty)),
    lane('longer', 1.5, qw(/patient)));
# each worker knows of all others
$lanes[0]{redis}->all_beat(4, map { $_->{redis} } @lanes[1 .. $#lanes])
    for 1, 2;
for my $n (1 .. $ROUNDS) {
    load($_) for @lanes;
    for my $lane (@lanes) {
        wait_for { $lane->{up}->served > 30 && $lane->{up}->now == $LIMIT } 15,
            'load';
    }
    my $begun = now;
    wait_for { now - $begun > 0.5 } 15, 'the level before';
    # the short outage lasts no longer than it should
    loses($_) for reverse @lanes;
    returns($_) for @lanes;
    followed($_, $n) for @lanes;
}

$t->done;
