#!/usr/bin/perl

# make bench-pool: requests that come to a server whose slot is taken, with a
# limit of the total, the same with "max_conns", and with a limit for each
# server. A real fleet, two nodes with two workers each, and four servers with
# one slot. Then what the scripts need for a pool of 64 servers.
#
# Environment: ROUNDS (3) of SECONDS (20) for each of three subjects and two
# loads; SESSIONS (1000) with a permit of the large pool. A run takes seven
# minutes. It uses the distribution's nginx and ignores DSEM_NGINX.
#
# Exit status: 0 when everything was measured, whatever the results.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Bench::Machine;
use Bench::Pool;
use Bench::Print qw(title number grouped);
use Bench::Servers;
use Bench::Stage;
use Bench::Stats qw(median);
use Bench::World;

my $stage = Bench::Stage->program('pool');
my @verdicts;

my ($rounds, $seconds, $sessions) = map { $ENV{$_->[0]} || $_->[1] }
    [ ROUNDS => 3 ], [ SECONDS => 20 ], [ SESSIONS => 1000 ];
$rounds =~ /^\d+$/ or die "ROUNDS is not a number\n";
$sessions =~ /^\d+$/ && $sessions >= 40
    or die "SESSIONS is not a number of 40 at least\n";
$seconds =~ /^\d*\.?\d+$/ && $seconds > 0
    or die "SECONDS is not a number\n";

my $n = Bench::Pool::SERVERS;
my %SUBJECT = (
    total => "limit=$n", conns => "limit=$n, max_conns=1",
    pool => 'limit=1/server',
);
my %LOAD = (
    full => Bench::Pool::CLIENTS . ' clients in a closed loop',
    part => sprintf('%.0f requests/s at random times, %.0f %%',
        Bench::Pool::PART * Bench::Pool::capacity(),
        100 * Bench::Pool::PART),
);

print "$_\n" for Bench::Machine::lines(qw(nginx Redis));
$stage->redis(Bench::World::redis_args());
my $pool = Bench::Pool->new($stage);
my $servers = Bench::Servers->new($stage, $sessions);
my @calls;
for my $round (1 .. $rounds) {
    print STDERR "round $round of $rounds\r" if -t STDERR;
    $pool->round($seconds);
    my @rows = $servers->rows;
    for my $i (0 .. $#rows) {
        push @{ $calls[$i][$_] }, $rows[$i][$_] for 0 .. 2;
    }
    print STDERR ' ' x 40, "\r" if -t STDERR;
}

printf "\n%d servers with one slot, %d ms of work; %d nodes x %d workers; "
    . "%d x %s s\n", $n, Bench::Pool::MS, Bench::Pool::NODES,
    Bench::Pool::WORKERS, $rounds, $seconds;
for my $load ($pool->loads) {
    title($LOAD{$load});
    printf "%-34s%16s%12s%12s\n", '', 'at a taken slot', 'requests/s',
        'p99, ms';
    for my $subject ($pool->subjects) {
        my ($taken, $percent) = $pool->taken($subject, $load);
        printf "%-34s%6d = %5.1f %%%12.1f%12s\n", $SUBJECT{$subject}, $taken,
            $percent, map { number('%.1f', $_) }
            $pool->figures($subject, $load);
    }
}

title(sprintf 'Scripts of a pool with %d servers, %s sessions have a permit',
    Bench::Servers::SERVERS, grouped($sessions));
printf "%-50s%12s%16s\n", '', 'us of a call', 'ms, the longest';
printf "%-50s%12.0f%16.2f\n", $_->[0][0], map { median(@$_) } @$_[1, 2]
    for @calls;

title('Aims: limit=1/server');
for my $load ($pool->loads) {
    my ($taken) = $pool->taken('pool', $load);
    my ($rate, $p99) = $pool->figures('pool', $load);
    my ($of, $other) = $pool->figures('total', $load);
    aim("$LOAD{$load}: at a taken slot", '%d', $taken, '0', $taken == 0);
    aim("  requests/s, to limit=$n", '%.3f', $of ? $rate / $of : undef,
        '>= 0.98', $rate >= 0.98 * $of);
    aim("  p99, to limit=$n", '%.2f', $other ? $p99 / $other : undef,
        '<= 1.1', ($p99 // 0) <= 1.1 * ($other // 0));
}
my ($longest) = sort { $b <=> $a } map { median(@{ $_->[2] }) } @calls;
aim('scripts: ms of the longest call', '%.2f', $longest, '<= 2',
    $longest <= 2);
my %other = $pool->statuses;
delete $other{200};
print "requests that ended with $_: $other{$_}\n" for sort keys %other;
printf "\n%d of %d aims reached\n", scalar(grep { $_ } @verdicts),
    scalar @verdicts;

sub aim { push @verdicts, Bench::Print::aim('%-56s%8s%9s', @_) }
