#!/usr/bin/perl

# Redis restarts empty while a fleet has little to do: idle permits serve its
# requests, none is refused, and none waits long. DSEM_LONG=1: 20 restarts.

use lib 't/lib';
use List::Util qw(max);

use Dsem::Test;

my ($LIMIT, $CLIENTS) = (8, 3);
my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 1;

my $t = Dsem::Test->new;

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 1s;
dsem_reuse 10s;
location / {
    dsem api limit=8 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# with a Redis of its own, so that both outages last at the same time
sub lane {
    my ($name, $down) = @_;
    my $lane = { name => $name, down => $down, redis => $t->redis,
        up => $t->upstream(service => 0.050) };
    $lane->{state} = Dsem::State->new($lane->{redis});
    $lane->{fleet} = [ map { $t->node("$name$_", $conf) } 1 .. 3 ];
    $lane->{urls} = [ map { $_->url('/') } @{ $lane->{fleet} } ];
    return $lane;
}

sub load {
    my ($lane) = @_;
    $lane->{up}->reset;
    $lane->{load} = $t->load_start(urls => $lane->{urls}, clients => $CLIENTS,
        seconds => 3600, records => 1);
}

sub permits_everywhere {
    my ($lane) = @_;
    # one that has none waits for Redis
    wait_for { (grep { $_->{held} }
        values %{ $lane->{state}->accounts('api') }) == 6 } 15,
        'a permit in each worker';
}

sub loses {
    my ($lane) = @_;
    $lane->{lost} = now;
    $lane->{redis}->kill;
}

sub returns {
    my ($lane) = @_;
    wait_for { now - $lane->{lost} > $lane->{down} } 15, 'the outage';
    $lane->{redis}->start;
}

sub followed {
    my ($lane, $n) = @_;
    my ($up, $state) = @$lane{qw(up state)};
    my $name = "$n: $lane->{name} outage";
    wait_for { $state->shard('gen') && !$state->recovering } 15,
        'the recovery';
    my $served = $up->served;
    wait_for { $up->served > $served + 10 } 15, 'service after it';

    my $result = $lane->{load}->stop->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [200],
        "$name: every request served"
        or diag explain $result->{statuses};
    my $longest = max map { took($_->{start}, $_->{start} + $_->{latency}) }
        @{ $result->{records} };
    cmp_ok $longest, '<', 1, "$name: longest wait";
    cmp_ok $up->peak, '<=', $LIMIT, "$name: limit not exceeded";
    note sprintf '%s: %d served, longest %.3f s', $name, $result->{count},
        $longest;
}

my @lanes = (lane(short => 0.3), lane(longer => 1.5));
for my $n (1 .. $ROUNDS) {
    load($_) for @lanes;
    permits_everywhere($_) for @lanes;
    loses($_) for @lanes;
    returns($_) for @lanes;
    followed($_, $n) for @lanes;
}

# the limit is one that counts
my ($urls, $up) = @{ $lanes[0] }{qw(urls up)};
my $full = $t->load_start(urls => $urls, clients => 30, seconds => 3600);
wait_for { $up->peak >= $LIMIT } 15, 'idle permits recalled';
my $load = $full->stop->wait;
is_deeply [ keys %{ $load->{statuses} } ], [200], 'full load: all served';
is $up->peak, $LIMIT, 'full load: limit reached, never exceeded';

# idle permits go back
$_->signal('QUIT') for map { @{ $_->{fleet} } } @lanes;
$_->quit for map { @{ $_->{fleet} } } @lanes;
$t->done;
