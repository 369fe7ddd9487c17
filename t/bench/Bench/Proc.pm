package Bench::Proc;

# Processes as the kernel shows them: CPU time used, and the CPUs on which they
# may run.
#
# Called by: Bench::Quiet, Bench::Contended, Bench::World, Bench::Cycle,
# Bench::Machine, scale.pl.

use strict;
use warnings;

use Carp qw(croak);
use POSIX ();

use constant TICK => 1 / POSIX::sysconf(POSIX::_SC_CLK_TCK());

# CPU time of all these processes together so far, in seconds: user and system,
# all threads. In nanoseconds if the kernel has schedstat, else in ticks.
sub cpu {
    my (@pids) = @_;
    my $seconds = 0;
    for my $pid (@pids) {
        my @threads = glob "/proc/$pid/task/*/schedstat";
        $seconds += $_ for @threads
            ? map { (split ' ', line($_))[0] / 1e9 } @threads
            : ticks($pid) * TICK;
    }
    return $seconds;
}

# CPU time of the main thread once it sleeps, in seconds; nothing without
# schedstat. While a thread runs, the kernel updates its figure at ticks only.
sub cpu_asleep {
    my ($pid) = @_;
    return unless -e "/proc/$pid/task/$pid/schedstat";
    for (1 .. 10_000) {
        last if line("/proc/$pid/task/$pid/stat") =~ /.*\) S /;
    }
    return (split ' ', line("/proc/$pid/task/$pid/schedstat"))[0] / 1e9;
}

sub line {
    my ($path) = @_;
    open my $fh, '<', $path or croak "$path: $!";
    return scalar <$fh>;
}

sub ticks {
    my ($pid) = @_;
    # after the name, which may contain any character
    my ($rest) = line("/proc/$pid/stat") =~ /.*\) (.*)/;
    my @field = split ' ', $rest;
    return $field[11] + $field[12];
}

sub cpus {
    open my $fh, '<', '/proc/self/status' or croak "/proc/self/status: $!";
    my ($list) = map { /^Cpus_allowed_list:\s*(\S+)/ ? $1 : () } <$fh>;
    return map { /(\d+)-(\d+)/ ? $1 .. $2 : $_ } split /,/, $list;
}

sub pin {
    my ($pid, @cpus) = @_;
    my $list = join ',', @cpus;
    system("taskset -a -p -c $list $pid >/dev/null") == 0
        or croak "taskset $list of process $pid failed";
}

1;
