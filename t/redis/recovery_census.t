#!/usr/bin/perl

# Redis restarts empty, under load, with all workers alive: normal grants begin
# about a second later, not after a lease. Running requests are declared before
# anything is granted.

use lib 't/lib';
use List::Util qw(min);

use Dsem::Test;

my ($LIMIT, $LEASE) = (6, 20);

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_lease 20s;
location /loaded {
    dsem api limit=6 queue=500 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /idle {
    dsem idle limit=1 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# with a Redis of its own: outages of different lengths at the same time
sub lane {
    my ($name) = @_;
    my $redis = $t->redis;
    my $lane = { redis => $redis, state => Dsem::State->new($redis),
        up => $t->upstream(service => 0.020) };
    $lane->{fleet} = [ map { $t->node("$name$_", $conf) } 1, 2 ];
    return $lane;
}

sub recovered {
    my ($lane) = @_;
    my ($gen, $until, $clock)
        = $lane->{state}->shard(qw(gen recover_until clock));
    return $gen && ($until // 0) <= ($clock // 0);
}

sub full {
    my ($lane) = @_;
    my ($up, $fleet) = @$lane{qw(up fleet)};
    $up->reset;
    $lane->{long} = [ map { $_->begin('/loaded?hang=1') } @$fleet ];
    wait_for { $up->now == 2 } 15, 'long requests';
    $lane->{load} = $t->load_start(clients => 20, seconds => 3600,
        urls => [ map { $_->url('/loaded') } @$fleet ]);
    wait_for { $up->peak == $LIMIT && $up->served > 20 } 15, 'load';
    $lane->{redis}->kill;
    $lane->{killed} = now;
}

# the time from Redis back until permits are granted
sub resumes {
    my ($lane, $how, $down) = @_;
    my ($redis, $up, $fleet) = @$lane{qw(redis up fleet)};
    wait_for { now > $lane->{killed} + $down } 15, 'downtime';
    $redis->start;
    my $back = now;
    # of a semaphore without permits
    my $first = $fleet->[0]->begin('/idle?t=1');
    eventually { recovered($lane) } "$how: recovered before the lease",
        $LEASE / 2;
    is $first->wait->status, 200, "$how: new request served";
    my $granted = took($back);

    $up->reset;
    wait_for { $up->served > 50 && $up->peak >= $LIMIT } 15, 'service';
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    is_deeply [ keys %{ $lane->{load}->stop->wait->{statuses} } ], [200],
        "$how: every request served";
    $up->release_all;
    is $_->wait->status, 200, "$how: long requests served"
        for @{ $lane->{long} };
    note sprintf '%s: first grant after %.2f s', $how, $granted;
    return $granted;
}

my ($twice, $longer) = map { lane($_) } qw(twice longer);
# each has seen the others: else the census would not wait for all of them
$longer->{redis}->all_beat(4, $twice->{redis});
full($_) for $longer, $twice;
my @time = resumes($twice, 'restart 1', 0.1);
full($twice);
push @time, resumes($twice, 'restart 2', 0.1),
    resumes($longer, '1.5 s down', 1.5);
cmp_ok min(@time), '<=', 1, 'within a second';

my $node = $twice->{fleet}[0];
is $node->logged($node->get('/idle?t=1'))->{dsem_status}, 'PASSED',
    'granted by Redis';

$t->done;
