#!/usr/bin/perl

# The clock of the Redis host is set by a minute or an hour, either way, under
# load. No lease of a live node expires, no permit is lost, and the lease of a
# node killed right afterwards expires after its real time. Each step is logged
# once.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my ($LIMIT, $LEASE) = (6, 1);
my $HEARTBEAT = $LEASE / 5;
my @STEPS = (60, -60, 3600, -3600);

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1s;
proxy_set_header X-Sem $dsem_name;
location /steady {
    dsem steady limit=6 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /killed {
    dsem killed limit=2 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# with a Redis and a clock of its own: both sizes of steps at the same time
sub lane {
    my (@steps) = @_;
    my $size = $steps[0];
    my $clock = Dsem::Clock->new($t, name => "clock$size");
    my $redis = $clock->redis;
    my $lane = { steps => \@steps, clock => $clock, redis => $redis,
        state => Dsem::State->new($redis),
        up => $t->upstream(service => 0.020) };
    my ($one, $two) = map { $t->node("by$size-$_", $conf) } 1, 2;
    # a node that is killed, with all permits of a semaphore, right after a step
    $lane->{dies} = { map { $_ => $t->node("dies$_", $conf) }
        grep { abs $_ > 60 } @steps };
    @$lane{qw(one two)} = ($one, $two);
    $lane->{nodes} = [ $one, $two, values %{ $lane->{dies} } ];
    # half of the limit with requests that hold their permits all the time
    $lane->{long} = [ map { $_->begin('/steady?hang=1') } $one, $two, $one ];
    wait_for { $lane->{up}->now('steady') == 3 } 15, 'long requests';
    $lane->{load} = $t->load_start(clients => 12, seconds => 3600,
        urls => [ map { $_->url('/steady') } $one, $two ]);
    wait_for { $lane->{state}->session_count == @{ $lane->{nodes} } } 15,
        'all sessions';
    return $lane;
}

sub logical { return $_[0]{state}->shard('clock') }

# with the time since the last command
sub logical_now {
    my ($state) = @_;
    my ($clock, $wall) = $state->shard(qw(clock wall));
    my ($s, $us) = @{ $state->cmd('TIME') };
    return $clock + $s * 1000 + $us / 1000 - $wall;
}

# seconds until the lease of a frozen node expires
sub lease_left {
    my ($state, $node) = @_;
    my $name = $node->name;
    my ($session) = grep { /^\Q$name\E:/ } $state->sessions;
    return ($state->lease_end($session) - logical_now($state)) / 1000;
}

# a lease expires after its real time
sub killed {
    my ($step, $waits, $left, $killed) = @_;
    is $waits->wait->status, 200, "killed at $step s: permits returned";
    my ($from, $least) = @$left;
    my $took = took($killed, $waits->{ended});
    # a command moves the clock by a quarter of the lease at most
    cmp_ok $waits->{ended} - $from, '>', $least - $LEASE / 4 - 0.05,
        "killed at $step s: permits not returned early";
    cmp_ok $took, '<', $LEASE + 2 * $HEARTBEAT + 2,
        "killed at $step s: permits returned in time";
    note sprintf 'killed at %s s: %.2f s', $step, $took;
}

sub steps {
    my ($lane, $step) = @_;
    my ($clock, $redis, $state, $up) = @$lane{qw(clock redis state up)};
    my $dies = delete $lane->{dies}{$step};
    my ($waits, $left, $killed);
    if ($dies) {
        $lane->{lost} = [ map { $dies->begin('/killed?hang=1') } 1, 2 ];
        wait_for { $up->now('killed') == 2 } 15, 'all permits out';
        $waits = $lane->{one}->begin('/killed?t=1');
        wait_for { $state->waiting('killed') == 1 } 15, 'one that waits';
        # the step is not in the log of a node that ends
        $dies->freeze;
        my $from = now;
        $left = [$from, lease_left($state, $dies)];
    }
    $up->reset;
    my $real = now;
    @$lane{qw(real before)} = ($real, logical_now($state));
    my $shown = $redis->cmd('TIME')->[0];
    $clock->step($step);
    my $stepped = $redis->cmd('TIME')->[0] - $shown;
    if ($dies) {
        $dies->kill;
        $killed = now;
    }
    cmp_ok abs($stepped - $step), '<', 2, "$step s: clock set";
    killed($step, $waits, $left, $killed) if $dies;
}

sub stepped {
    my ($lane, $step) = @_;
    my ($state, $up, $real, $before) = @$lane{qw(state up real before)};
    wait_for { now > $real + 1.3 * $LEASE } 15, 'more than a lease';
    my ($passed, $waited) = (logical($lane) - $before, now - $real);
    cmp_ok $passed / 1000, '<', $waited + $LEASE / 2,
        "$step s: logical time not advanced";
    cmp_ok $passed / 1000, '>', $waited - $LEASE,
        "$step s: logical time not lost";
    is $state->session_count, 2 + keys %{ $lane->{dies} },
        "$step s: all sessions live";
    is $up->peak('steady'), $LIMIT, "$step s: limit reached, never exceeded";
    cmp_ok $state->held('steady'), '>=', 3, "$step s: no permit lost";
    note sprintf '%s s: %.2f s passed in %.2f s, %d served', $step,
        $passed / 1000, $waited, $up->served;
}

my @lanes = (lane(@STEPS[0, 1]), lane(@STEPS[2, 3]));
for my $n (0, 1) {
    steps($_, $_->{steps}[$n]) for @lanes;
    stepped($_, $_->{steps}[$n]) for @lanes;
}

for my $lane (@lanes) {
    is_deeply [ keys %{ $lane->{load}->stop->wait->{statuses} } ], [200],
        'every request served';
    is $lane->{up}->release_all, 3, 'long requests still running';
    is $_->wait->status, 200, 'long requests served' for @{ $lane->{long} };
}
my @nodes = map { @{ $_->{nodes} } } @lanes;
is_deeply [ map { /lease of (\d+) sessions expired/ ? $1 : $_ }
    map { $_->grep_log(
        qr/lease of|resynchronizing|\[warn\].*dsem: (?!clock)/) } @nodes ],
    [ 1, 1 ], 'no lease expired but those of killed nodes';
# as a worker sees it: without the time since its last heartbeat
sub step_of {
    my ($ms) = @_;
    my ($step) = grep { abs($ms / 1000 - $_) < 5 } @STEPS;
    return $step // $ms;
}
is_deeply [ sort { $a <=> $b } map { /stepped by (-?\d+) ms/
        ? step_of($1) : () }
    map { $_->grep_log(qr/\[warn\].*dsem: clock of redis stepped/) }
    @nodes ], [ sort { $a <=> $b } @STEPS ],
    'each step in the log of one worker';

$t->done;
