#!/usr/bin/perl

# make bench: compares dsem with other limiters on this machine, in one run.
# Rounds are interleaved (A B C, A B C, ...), and only ratios of the same run
# are valid on other machines.
#
# Environment: ROUNDS (15), SECONDS for each measurement (1), WORKERS of the
# node whose cap is not reached (1; then it has a CPU of its own). A run takes
# nine minutes; half of the time clients start and end. It uses the
# distribution's nginx and ignores DSEM_NGINX.
#
# Exit status: 0 when everything was measured, whatever the results.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Bench::Backend;
use Bench::Contended;
use Bench::Machine;
use Bench::Quiet;
use Bench::Report;
use Bench::Stage;

my $stage = Bench::Stage->program('bench');

my %opt = (rounds => $ENV{ROUNDS} || 15, seconds => $ENV{SECONDS} || 1,
    workers => $ENV{WORKERS} || 1);
for (sort keys %opt) {
    $opt{$_} =~ /^\d*\.?\d+$/ && $opt{$_} > 0 or die uc . " is not a number\n";
}

print "$_\n" for Bench::Machine::lines(qw(nginx Redis HAProxy wrk));
print "rounds  $opt{rounds}, interleaved, of $opt{seconds} s each\n";

my $backend = Bench::Backend->new($stage);

my $quiet = Bench::Quiet->new($stage, $backend, %opt);
rounds($quiet);
Bench::Report::quiet($quiet);
$_->end for $quiet->subjects;

my $contended = Bench::Contended->new($stage, $backend, %opt);
rounds($contended);
Bench::Report::contended($contended);
Bench::Report::targets($quiet, $contended);

sub rounds {
    my ($scenario) = @_;
    for my $n (1 .. $opt{rounds}) {
        print STDERR "round $n of $opt{rounds}\r" if -t STDERR;
        $scenario->round;
    }
    print STDERR ' ' x 40, "\r" if -t STDERR;
}
