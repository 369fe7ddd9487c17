#!/usr/bin/perl

# make bench-auto: the limit that "limit=auto" finds in front of a backend with
# a knee. A real fleet, three nodes with two workers each; the same traffic with
# a single worker, and with six limiters that know nothing of each other.
#
# Environment: SECONDS of a case (30), CLIENTS (250). A run takes four minutes.
# It uses the distribution's nginx and ignores DSEM_NGINX.
#
# Exit status: 0 when everything was measured, whatever the results.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Bench::Auto;
use Bench::Machine;
use Bench::Print qw(title number);
use Bench::Stage;
use Bench::World;

my $stage = Bench::Stage->program('auto');
my @verdicts;

my $seconds = $ENV{SECONDS} || 30;
$seconds =~ /^\d*\.?\d+$/ && $seconds >= 1
    or die "SECONDS is not a number of 1 at least\n";
my $clients = $ENV{CLIENTS} || 250;
$clients =~ /^\d+$/ or die "CLIENTS is not a number\n";

my %TEXT = (
    fixed => 'knee as a fixed limit', low => 'auto, from 5',
    high => 'auto, from 200', halves => 'auto, halves and comes back',
    one => 'auto, one worker, from 5', independent => 'six independent, from 5',
);

print "$_\n" for Bench::Machine::lines(qw(nginx Redis));
$stage->redis(Bench::World::redis_args());
my $auto = Bench::Auto->new($stage, seconds => $seconds,
    clients => $clients);
for my $name ($auto->names) {
    print STDERR "$TEXT{$name}\r" if -t STDERR;
    $auto->run($name);
    print STDERR ' ' x 40, "\r" if -t STDERR;
}
cases();
aims();

sub cases {
    printf "\n3 nodes x 2 workers, %d clients, %d ms up to %d at a time\n",
        $clients, Bench::AutoFleet::MS, Bench::Auto::KNEE;
    title("Limits found after $seconds s");
    printf "%-34s%10s%12s%12s\n", '', 'limit', 'requests/s', 'p99, ms';
    for my $name (grep { $_ ne 'halves' } $auto->names) {
        my ($rate, $p99) = $auto->figures($name);
        printf "%-34s%10s%12.0f%12.1f\n", $TEXT{$name}, $name eq 'fixed'
            ? Bench::Auto::KNEE : number('%.1f', $auto->found($name)), $rate,
            $p99;
    }
    printf "%-34s%10s\n", '  one of them', sprintf '%.1f-%.1f',
        $auto->spread('independent');
    for my $name (qw(low high halves)) {
        title("$TEXT{$name}: the limit");
        print "$_\n" for $auto->curve($name, 70, 40);
    }
}

sub aims {
    title('Aims');
    printf "%-46s%10s%14s\n", '', 'seen', 'aim';
    my ($rate, $p99) = $auto->figures('fixed');
    for my $name (qw(low high)) {
        my ($found, $seen) = ($auto->found($name), [$auto->figures($name)]);
        aim("$TEXT{$name}: limit", '%.1f', $found, '16 to 24',
            abs($found - 20) <= 4);
        aim('  throughput, to the fixed limit', '%.2f', $seen->[0] / $rate,
            '>= 0.95', $seen->[0] >= 0.95 * $rate);
        aim('  p99 at the backend, to the fixed limit', '%.2f',
            $seen->[1] / $p99, '<= 1.3', $seen->[1] <= 1.3 * $p99);
    }
    my ($halved, $back) = map { $auto->reached('halves', $_) } 1, 2;
    aim('backend halves: s to the new knee', '%.1f', $halved, '<= 10',
        defined $halved && $halved <= 10);
    aim('backend is back: s to the old knee', '%.1f', $back, '<= 20',
        defined $back && $back <= 20);
    my $ratio = $auto->found('low') / ($auto->found('one') || 1);
    aim('six workers, to one worker: limit', '%.2f', $ratio, '0.9 to 1.1',
        abs($ratio - 1) <= 0.1);
    aim('  six independent limiters: limit', '%.1f',
        $auto->found('independent'));
    my $exceeded = $auto->exceeded;
    aim('cap in force exceeded at the backend', '%d', $exceeded, '0',
        $exceeded == 0);
    my %other = $auto->statuses;
    delete $other{200};
    print "requests that ended with $_: $other{$_}\n" for sort keys %other;
    printf "\n%d of %d aims reached\n", scalar(grep { $_ } @verdicts),
        scalar @verdicts;
}

# Without an aim the figure is for comparison.
sub aim { push @verdicts, Bench::Print::aim('%-46s%10s%14s', @_) }
