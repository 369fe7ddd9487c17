package Dsem::Wait;

# Waiting for conditions, never for time: the only place in the tests that
# sleeps. Times are monotonic seconds; timeouts are scaled by
# DSEM_TIME_FACTOR for slow builds (sanitizers, valgrind).
#
# Deadlines and upper bounds count the time that the machine gave to the tests,
# without its stalls (Dsem::Metronome): on a busy or suspended machine the
# awaited process does not run either. A lower bound counts all time.
#
# Called by: the whole harness; tests import it from Dsem::Test.

use strict;
use warnings;

use Carp qw(croak);
use Exporter qw(import);
use List::Util qw(max min);
use Test::More ();
use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC);

use Dsem::Metronome;

our @EXPORT_OK = qw(wait_for eventually now took poll time_factor);

# seconds; long, because only failures take so long
use constant DEADLINE => 15;

# seconds between two looks; a condition that is awaited for long is looked at
# less often
use constant { PAUSE => 0.002, LONGEST => 0.020, PART => 0.02 };

sub now () { clock_gettime(CLOCK_MONOTONIC) }

sub time_factor () { $ENV{DSEM_TIME_FACTOR} || 1 }

my $metronome;

# Seconds from then to a later time (now), without the stalls between them.
sub took {
    my ($from, $to) = @_;
    $to //= now;
    $metronome //= Dsem::Metronome->new($ENV{DSEM_METRONOME} // return
        $to - $from) or return $to - $from;
    return $to - $from - $metronome->stalled($from, $to);
}

# The condition's value when it is true; nothing after the timeout.
sub poll {
    my ($condition, $timeout) = @_;
    my $limit = ($timeout // DEADLINE) * time_factor;
    my $begin = now;
    while (1) {
        my $at = now;
        my $value = $condition->();
        return $value if $value;
        return if $at - $begin > $limit && took($begin, $at) > $limit;
        sleep min(LONGEST, max(PAUSE, PART * ($at - $begin)));
    }
}

sub wait_for (&;$$) {
    my ($condition, $timeout, $what) = @_;
    return poll($condition, $timeout)
        // croak 'timed out waiting for ' . ($what // 'a condition');
}

sub eventually (&;$$) {
    my ($condition, $name, $timeout) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return Test::More->builder->ok(scalar poll($condition, $timeout), $name);
}

1;
