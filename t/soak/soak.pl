#!/usr/bin/perl

# make soak: three nodes under mixed load, a seeded schedule of faults, and an
# independent check of everything that was logged. See README.md.
#
#   soak.pl [--seconds=60] [--seed=1] [--rate=1] [--dir=build/soak] [--list]
#       [--no-pool]
#
# SECONDS, SEED, RATE and LIST in the environment are the same. The logs remain
# in the directory: check.pl checks them again.
#
# Exit status: 0 nothing found, 1 the checker has found something, 2 the fleet
# could not be run.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use File::Spec;
use Getopt::Long qw(GetOptions);

use Dsem::Process;

use Soak::Faults;
use Soak::Fleet;
use Soak::Schedule;

$| = 1;
$SIG{PIPE} = 'IGNORE';
$SIG{$_} = sub { exit 2 } for qw(INT TERM HUP);

exit main();
END { Dsem::Process->end_all }

sub main {
    my %opt = options();
    my @all = Soak::Schedule::list(@opt{qw(seed seconds)});
    if ($opt{list}) {
        print Soak::Schedule::line($_), "\n" for @all;
        return 0;
    }
    my @dirs;
    for my $phase (@Soak::Schedule::PHASES) {
        next if $opt{phase} && $opt{phase} ne $phase;
        push @dirs, "$opt{dir}/$phase";
        eval { run($phase, $dirs[-1], \%opt,
            grep { $_->{phase} eq $phase } @all); 1 }
            or do { print STDERR "make soak: $phase: $@"; return 2 };
    }
    print "checking\n";
    my $status = system $^X, '-I' . "$FindBin::Bin/../lib",
        "$FindBin::Bin/check.pl", @dirs;
    return $status ? 1 : 0;
}

sub options {
    my %opt = (seconds => $ENV{SECONDS} || 60, seed => $ENV{SEED} || 1,
        rate => $ENV{RATE} || 1, list => $ENV{LIST},
        dir => "$Dsem::Test::ROOT/build/soak", pool => 1);
    GetOptions(\%opt, 'seconds=f', 'seed=i', 'rate=f', 'dir=s', 'phase=s',
        'list', 'pool!') && !@ARGV or exit 2;
    delete $Soak::Fleet::SEMAPHORE{pool} unless $opt{pool};
    # unix sockets are in it
    $opt{dir} = File::Spec->rel2abs($opt{dir});
    die "make soak: SECONDS must be at least 30\n" if $opt{seconds} < 30;
    return %opt;
}

sub run {
    my ($phase, $dir, $opt, @faults) = @_;
    print "$phase: starting\n";
    my $fleet = Soak::Fleet->new(dir => $dir, phase => $phase,
        rate => $opt->{rate}, seed => $opt->{seed})->start;
    Soak::Faults->new($fleet)->run(sub {
        my ($fault, $step) = @_;
        print Soak::Schedule::line($fault), "\n" if $step eq 'begin';
    }, @faults);
    $fleet->end;
}
