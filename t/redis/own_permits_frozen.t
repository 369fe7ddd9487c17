#!/usr/bin/perl

# Redis freezes under full load. From the first late reply on the workers'
# own permits serve their own requests, long before Redis is unavailable, and
# until the pause is over that follows when Redis goes on. DSEM_LONG=1: permits
# in use in the worst second, over ten rounds.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 8;
my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 1;
# a permit whose release is on its way is lost until Redis replies: of some
# rounds there may be one in which all came free at that time
my $MORE = $ENV{DSEM_LONG} ? 0 : 3;
my $SOMETIMES = 0.6;
# with the time since the last heartbeat more than three quarters of the lease:
# Redis then pauses all grants for a quarter of it
my $SECONDS = 1.8;
# of the permits in use before, in the worst second: none would be without own
# permits. How many depends on the machine, which other tests need as well.
my $BOUND = $ENV{DSEM_LONG} ? 0.9 : 0.05;

my $t = Dsem::Test->new(lease => 3);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.050);

# seconds before the freeze, and after it: a pause of a quarter of the lease
my ($BEFORE, $AFTER) = (0.5, 1.1);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 1s;
dsem_lease 3s;
location / {
    dsem api limit=8 queue=400 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $reached = 0;

for my $n (1 .. $ROUNDS + $MORE) {
    last if $n > $ROUNDS && $reached >= $ROUNDS;
    $up->reset;
    my $load = $t->load_start(urls => [ map { $_->url('/') } @fleet ],
        clients => 80, seconds => 3600, timeout => 20, keepalive => 1);
    wait_for { $up->served > 30 && $up->now == $LIMIT } 15, 'load';
    my $begun = now;
    wait_for { now - $begun > $BEFORE } 5, 'the level before';

    my $frozen = now;
    $redis->freeze;
    wait_for { now - $frozen > $SECONDS } 5, 'the freeze';
    $redis->thaw;
    wait_for { now - $frozen > $SECONDS + $AFTER } 5, 'service after it';

    my $statuses = $load->stop->wait->{statuses};
    is $up->peak, $LIMIT, "$n: limit reached, never exceeded";
    is_deeply [ keys %$statuses ], [200], "$n: every request served"
        or diag explain $statuses;

    my $before = $up->goodput($LIMIT, $frozen - $BEFORE, $frozen);
    my $worst = $up->worst($LIMIT, $frozen, $frozen + $SECONDS + $AFTER)
        / $before;
    cmp_ok $worst, '>=', $SOMETIMES, "$n: permits stay in use" if !$MORE;
    $reached++ if $worst >= $BOUND;
    note sprintf '%d: %.3f of %.3f in use, %d served', $n,
        $worst, $before, $statuses->{200};
}

cmp_ok $reached, '>=', 0.8 * $ROUNDS, 'no permit lost in most rounds';

$t->done;
