package Dsem::Wait;

# Waiting for conditions, never for time: the only place in the tests that
# sleeps. Times are monotonic seconds; timeouts are scaled by
# DSEM_TIME_FACTOR for slow builds (sanitizers, valgrind).
#
# A deadline counts only the time in which this process could run: on a busy or
# suspended machine the awaited process does not run either. Of a check that
# takes long it counts a part, as nothing tells which of the two it was.
#
# Called by: the whole harness; tests import it from Dsem::Test.

use strict;
use warnings;

use Carp qw(croak);
use Exporter qw(import);
use Test::More ();
use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(wait_for eventually now poll time_factor);

# seconds; long, because only failures take so long
use constant DEADLINE => 15;

# seconds; checking the condition takes a few ms, most of a longer step is the
# machine's
use constant { PAUSE => 0.005, LOOK => 0.020, PART => 0.2 };

sub now () { clock_gettime(CLOCK_MONOTONIC) }

sub time_factor () { $ENV{DSEM_TIME_FACTOR} || 1 }

# The condition's value when it is true; nothing after the timeout.
sub poll {
    my ($condition, $timeout) = @_;
    my $left = ($timeout // DEADLINE) * time_factor;
    my $at = now;
    while (1) {
        my $value = $condition->();
        return $value if $value;
        return if $left < 0;
        sleep PAUSE;
        my $took = -$at + ($at = now);
        $left -= $took < LOOK ? $took
            : $took * PART < LOOK ? LOOK : $took * PART;
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
