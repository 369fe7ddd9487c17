#!/usr/bin/perl

# The clock of the Redis host is set by a minute or an hour, either way, under
# load. No lease of a live node expires, no permit is lost, and the lease of a
# node killed right afterwards expires after its real time. Each step is logged
# once.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Clock;
use Dsem::Test;

my ($LIMIT, $LEASE) = (6, 1);
my $HEARTBEAT = $LEASE / 5;
my @STEPS = (60, -60, 3600, -3600);

my $t = Dsem::Test->new(lease => $LEASE);
my $clock = Dsem::Clock->new($t);
my $redis = $clock->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 1s;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header X-Sem $dsem_name;
        location /steady {
            dsem steady limit=6 queue=100 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /killed {
            dsem killed limit=2 queue=100 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my ($one, $two) = $t->fleet(2, $conf);

sub logical { return $t->state->shard('clock') }
sub sessions { return $t->state->session_count }
sub held { return $t->state->held($_[0]) }

# a lease expires after its real time
sub killed {
    my ($step, $waits, $killed) = @_;
    is $waits->wait->status, 200, "killed at $step s: permits returned";
    my $least = $waits->{ended} - $killed;
    my $took = took($killed, $waits->{ended});
    cmp_ok $least, '>', $LEASE / 2,
        "killed at $step s: permits not returned early";
    cmp_ok $took, '<', $LEASE + 2 * $HEARTBEAT + 2,
        "killed at $step s: permits returned in time";
    note sprintf 'killed at %s s: %.2f s', $step, $took;
}

# half of the limit with requests that hold their permits all the time

my @long = map { $_->begin('/steady?hang=1') } $one, $two, $one;
wait_for { $up->now('steady') == 3 } 15, 'long requests';
my $load = $t->load_start(clients => 12, seconds => 3600,
    urls => [ map { $_->url('/steady') } $one, $two ]);

# a node that is killed, with all permits of a semaphore, right after a step
my %dies = map { $_ => $t->node("dies$_", $conf) } grep { abs $_ > 60 } @STEPS;
my @nodes = ($one, $two, values %dies);
wait_for { sessions() == @nodes } 15, 'all sessions';

for my $step (@STEPS) {
    my $dies = delete $dies{$step};
    my (@lost, $waits, $killed);
    if ($dies) {
        @lost = map { $dies->begin('/killed?hang=1') } 1, 2;
        wait_for { $up->now('killed') == 2 } 15, 'all permits out';
        $waits = $one->begin('/killed?t=1');
        wait_for { $t->state->waiting('killed') == 1 } 15, 'one that waits';
        # the step is not in the log of a node that ends
        $dies->freeze;
    }
    $up->reset;
    my $real = now;
    my $before = logical();
    my $shown = $redis->cmd('TIME')->[0];
    $clock->step($step);
    my $stepped = $redis->cmd('TIME')->[0] - $shown;
    if ($dies) {
        $dies->kill;
        $killed = now;
    }
    cmp_ok abs($stepped - $step), '<', 2, "$step s: clock set";
    killed($step, $waits, $killed) if $dies;
    wait_for { now > $real + 1.3 * $LEASE } 15, 'more than a lease';
    my ($passed, $waited) = (logical() - $before, now - $real);
    cmp_ok $passed / 1000, '<', $waited + $LEASE / 2,
        "$step s: logical time not advanced";
    cmp_ok $passed / 1000, '>', $waited - $LEASE,
        "$step s: logical time not lost";
    is sessions(), 2 + keys %dies, "$step s: all sessions live";
    is $up->peak('steady'), $LIMIT, "$step s: limit reached, never exceeded";
    cmp_ok held('steady'), '>=', 3, "$step s: no permit lost";
    note sprintf '%s s: %.2f s passed in %.2f s, %d served', $step,
        $passed / 1000, $waited, $up->served;
}

is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'every request served';
is $up->release_all, 3, 'long requests still running';
is $_->wait->status, 200, 'long requests served' for @long;
is_deeply [ map { /lease of (\d+) sessions expired/ ? $1 : $_ }
    map { $_->grep_log(
        qr/lease of|resynchronizing|\[warn\].*dsem: (?!clock)/) } @nodes ],
    [ 1, 1 ], 'no lease expired but those of killed nodes';
is_deeply [ sort { $a <=> $b } map { /stepped by (-?\d+) ms/
        ? sprintf '%.0f', $1 / 1000 : () }
    map { $_->grep_log(qr/\[warn\].*dsem: clock of redis stepped/) }
    @nodes ], [ sort { $a <=> $b } @STEPS ],
    'each step in the log of one worker';

$t->done;
