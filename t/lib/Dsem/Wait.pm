package Dsem::Wait;

# Waiting for conditions, never for time: the only place in the tests that
# sleeps. Times are monotonic seconds; timeouts are scaled by
# DSEM_TIME_FACTOR for slow builds (sanitizers, valgrind).
#
# A deadline runs on the time that this process was given: on a machine that
# is busy or stands still, what is waited for stands still as well.
#
# Called by: everything here; tests get it through Dsem::Test.

use strict;
use warnings;

use Carp qw(croak);
use Exporter qw(import);
use Test::More ();
use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(wait_for eventually now poll time_factor);

# A deadline costs nothing while things work.
use constant DEADLINE => 15;

# A look at the condition takes a few ms; more of it is not ours.
use constant { PAUSE => 0.005, LOOK => 0.020 };

sub now () { clock_gettime(CLOCK_MONOTONIC) }

sub time_factor () { $ENV{DSEM_TIME_FACTOR} || 1 }

# The condition's value once it is true; nothing when the time is over.
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
        $left -= $took < LOOK ? $took : LOOK;
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
