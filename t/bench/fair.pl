#!/usr/bin/perl

# make bench-fair: what "fair=" gives to the tenants of one cap, and what it
# costs. A real fleet, three nodes with two workers each; all cases run without
# and with "fair=" in interleaved rounds, rates are parts of the capacity that
# the same round measures. Then the script time of a contended sync.
#
# Environment: ROUNDS (5), SECONDS of each measurement (6), QUEUE (100); CAPACITY,
# taken as that of the fleet: in a moment, or where others use the machine too,
# it cannot be measured. A run takes six minutes. It uses the distribution's
# nginx and ignores DSEM_NGINX.
#
# Exit status: 0 when everything was measured, whatever the results.

use strict;
use warnings;

use List::Util qw(min);
use POSIX qw(ceil);

use FindBin;
use lib $FindBin::Bin, map { "$FindBin::Bin/../$_" } qw(lib model);

use Bench::Fair;
use Bench::FairPlays;
use Bench::FairSync;
use Bench::Machine;
use Bench::Print qw(title number);
use Bench::Stage;
use Bench::World;

my $stage = Bench::Stage->program('fair');
my ($fair, @verdicts);

my %opt = (rounds => $ENV{ROUNDS} || 5, seconds => $ENV{SECONDS} || 6,
    $ENV{CAPACITY} ? (capacity => $ENV{CAPACITY}) : ());
for (sort keys %opt) {
    $opt{$_} =~ /^\d*\.?\d+$/ && $opt{$_} > 0 or die uc . " is not a number\n";
}

print "$_\n" for Bench::Machine::lines(qw(nginx Redis));
print "rounds  $opt{rounds}, interleaved, of $opt{seconds} s each\n";

$stage->redis(Bench::World::redis_args());
$fair = Bench::Fair->new($stage, %opt);
for my $n (1 .. $opt{rounds}) {
    print STDERR "round $n of $opt{rounds}\r" if -t STDERR;
    $fair->round;
}
print STDERR ' ' x 40, "\r" if -t STDERR;
tenants();
$fair->end;
my %play = plays(Bench::FairPlays->new($stage, 2500 * $opt{seconds}));
# fewer beside short measurements
my $short = min(1, $opt{seconds} / 6);
# of the sessions of 3 nodes with 2 workers, and of one
my ($sync, $single) =
    map { Bench::FairSync->new($stage, ceil(1000 * $short), $_) } 6, 1;
for (1 .. ceil(10 * $opt{rounds} * $short)) {
    $_->round(ceil(500 * $short)) for $sync, $single;
}
aims();

###########################################################################

sub tenants {
    my %text = (
        overload => 'all overloaded, the noisy one sends 10 x its share, the '
            . 'others 2 x',
        within => 'the noisy one sends 10 x its share, the others 0.85 x',
        slow => 'the same, requests of the noisy one take 10 x as long',
        pinned => 'the second case, noisy and a at one node, b and c at the '
            . 'others',
        shares => 'shares 1:2:4, each sends as much as the fleet can serve',
    );
    printf "\n3 nodes x 2 workers, limit=%d queue=%d, %d ms; the fleet serves "
        . "%.0f/s\n", Bench::Tenants::LIMIT, Bench::Tenants::QUEUE,
        Bench::Tenants::MS, $fair->capacity;
    for my $case ($fair->names) {
        title($text{$case});
        row('', @{ Bench::Fair::TENANTS() });
        figures($case, $_, @{ Bench::Fair::TENANTS() }) for $fair->paths($case);
    }
    title($text{shares});
    row('', qw(one two four));
    figures('shares', 'fair', qw(one two four));
}

sub row {
    my ($name, @cells) = @_;
    printf "%-34s" . '%10s' x @cells . "\n", $name, @cells;
}

sub figures {
    my ($case, $path, @names) = @_;
    my $how = { fair => 'fair=', plain => 'without',
        node => 'fair= per node' }->{$path};
    my $line = sub {
        my ($what, $format, $code) = @_;
        row("$how: $what", map {
            number($format, $fair->figure($case, $path, $code, $_))
        } @names);
    };
    $line->('permits in use', '%.2f', \&Bench::Fair::in_use);
    $line->('rejected', '%.1f %%', sub {
        my $part = Bench::Fair::rejected(@_);
        return defined $part ? 100 * $part : undef;
    });
    $line->('wait p50, ms', '%.0f', Bench::Fair::wait_at(0.5));
    $line->('wait p99, ms', '%.0f', Bench::Fair::wait_at(0.99));
}

# The plays, without and with "fair=".
sub plays {
    my ($plays) = @_;
    my %seen;
    title('10 permits of 50 ms, simulated time: shares of the permits');
    printf "%-44s%9s%9s%9s%9s\n", '', 'tenant', 'any 10 s', 'others',
        'refused';
    for (
        [ flood20 => 'new keys, 300/s, queue=20', sub {
            $plays->flood(1e9, queue => 20, @_) } ],
        [ flood100 => 'the same, queue=100', sub { $plays->flood(1e9, @_) } ],
        [ turn => '100 keys in turn, queue=20', sub {
            $plays->flood(100, queue => 20, @_) } ],
        [ noisy => 'one key with 200 clients', sub {
            $plays->noisy(@_) } ],
        [ burst => 'a key: 2 ms, then 60 times 3 s', sub {
            $plays->burst(@_) } ],
    ) {
        my ($name, $text, $play) = @$_;
        for my $fair (0, 1) {
            my $of = $seen{$name}[$fair] = $play->(fair => $fair);
            printf "%-44s%9.3f%9.3f%9.3f%7.1f %%\n", $fair ? '  fair='
                : "$text: without", @$of{qw(share window flood)},
                100 * $of->{refused} / ($of->{sent} || 1);
        }
    }
    return %seen;
}

###########################################################################

sub aims {
    title('Aims');
    printf "%-46s%10s%12s\n", '', 'seen', 'aim';
    my $jain = $fair->jain_in_use('overload', 'fair');
    aim("Jain's index of permits in use, overloaded", '%.3f', $jain,
        '>= 0.98', $jain >= 0.98);
    aim('  without fair=', '%.3f', $fair->jain_in_use('overload', 'plain'));
    my ($number) = $fair->rejected_of_quiet('within', 'fair');
    aim('within their share: rejected, all rounds', '%d', $number, '0',
        $number == 0);
    aim('  without fair=', '%d',
        ($fair->rejected_of_quiet('within', 'plain'))[0]);
    at_most('  p99 wait, to that without fair=', '%.2f',
        $fair->wait_ratio('within'), 0.35);
    at_most('noisy one 10 x as long: rejected, %', '%.2f',
        100 * (($fair->rejected_of_quiet('slow', 'fair'))[1] // 1), 1);
    aim('  without fair=', '%.2f',
        100 * (($fair->rejected_of_quiet('slow', 'plain'))[1] // 0));
    at_most('  p99 wait, to that without fair=', '%.2f',
        $fair->wait_ratio('slow'), 0.45);
    aim('tenants at single nodes: rejected, %', '%.2f',
        100 * (($fair->rejected_of_quiet('pinned', 'fair'))[1] // 0));
    aim('  fair=, but a queue of each node', '%.2f',
        100 * (($fair->rejected_of_quiet('pinned', 'node'))[1] // 0));
    at_most('shares 1:2:4: off by, %', '%.1f', 100 * $fair->off_shares, 5);
    for ([20, 24], [100, 104]) {
        my ($plain, $with) = @{ $play{"flood$_->[0]"} };
        my $least = $plain->{share};
        aim("new keys, queue=$_->[0]: share of a tenant", '%.3f',
            $with->{share}, sprintf('>= %.3f', $least),
            $with->{share} >= $least && $with->{share} >= 1 / $_->[1]);
    }
    aim('one key with 200 clients: tenants refused', '%d',
        $play{noisy}[1]{refused}, '0', $play{noisy}[1]{refused} == 0);
    aim('slow burst: a tenant in any 10 s', '%.3f', $play{burst}[1]{window},
        '>= 0.150', $play{burst}[1]{window} >= 0.15);
    script_time('contended sync, 1,000 tenants wait, us', $sync);
    script_time('the same, one session has all tickets, us', $single);
    my ($limit, $peak) = (Bench::Tenants::LIMIT, $fair->peak);
    aim('peak at the backend, in all runs', '%d', $peak, "= $limit",
        $peak == $limit && $fair->lowest_peak == $limit);
    my %failed = $fair->failed;
    print "requests that ended with $_: $failed{$_}\n" for sort keys %failed;
    printf "\n%d of %d aims reached\n", scalar(grep { $_ } @verdicts),
        scalar @verdicts;
}

sub script_time {
    my ($name, $syncs) = @_;
    my ($plain_us, $fair_us, $ratio, $before_us, $to_before) = $syncs->result;
    aim($name, '%.1f', $fair_us);
    aim('  without fair=, us', '%.1f', $plain_us);
    at_most('  ratio', '%.2f', $ratio, 1.3);
    return if !defined $to_before;
    aim('  before new keys shared turns, us', '%.1f', $before_us);
    at_most('  ratio', '%.2f', $to_before, 1.05);
}

sub at_most {
    my ($name, $format, $seen, $aim) = @_;
    aim($name, $format, $seen, "<= $aim", defined $seen && $seen <= $aim);
}

# Without an aim the figure is for comparison.
sub aim { push @verdicts, Bench::Print::aim('%-46s%10s%12s', @_) }
