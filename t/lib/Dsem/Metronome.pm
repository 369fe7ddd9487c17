package Dsem::Metronome;

# How much of its time the machine gives to the tests. A process sleeps, does a
# small piece of work, always the same, and notes how late it was; what it lacks
# is a stall: of 10 s in which that work took four times as long as on a machine
# with nothing else to do, 7.5 s. Waits and upper bounds of times do not count
# stalls, so that a busy machine fails no test.
#
# Some processes can stand for seconds while others run: on Linux 6.18 two that
# answer each other, a client and its Redis, may keep all others from their
# processor. So a whole run has more processes with beats, and one that reads how
# long each process of this tree has waited for a processor, where the kernel
# counts that: a worker stood for 7 s at a load of 6, and no beat was late. Nothing
# arrives from a socket while ksoftirqd waits, for 3 s at a load of 20.
#
# The notes are a file of records, one for each beat: the monotonic time of its
# end, the stall until then and how late this beat was, in seconds. They are for
# one machine and one boot.
#
# Called by: Dsem::Suite, for all files of a run (run, watch), and Dsem::Test, for
# a file that is run alone (run); Dsem::Wait and Dsem::Suite read the notes.

use strict;
use warnings;

use Carp qw(croak);
use Cwd qw(getcwd);
use List::Util qw(max);
use POSIX qw(_exit setsid);
use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC
    CLOCK_PROCESS_CPUTIME_ID);

# seconds
use constant { PAUSE => 0.040, WORK => 0.001 };

# how much longer the work may take
use constant SHARED => 2;

# longer than this after the last note, a beat is late
use constant LATE => PAUSE + 0.010;

use constant RECORD => length pack 'd3';

# more processes with beats, and seconds
use constant { OTHERS => 4, OTHERS_PAUSE => 0.1 };

# number of the notes of all processes, and seconds: a few ms of work each
use constant { ALL => OTHERS + 1, ALL_PAUSE => 0.25 };

# reads in which a process stays unread that was none of these
use constant UNREAD => 8;

sub now () { clock_gettime(CLOCK_MONOTONIC) }

sub cpu () { clock_gettime(CLOCK_PROCESS_CPUTIME_ID) }

# Beats until the process with this number is no longer the parent.
sub run {
    my ($path, $parent) = @_;
    open my $notes, '>', $path or croak "$path: $!";
    my $rounds = calibrate();
    my ($shortest, $stalled, $at) = (9, 0, now);
    while (getppid == $parent) {
        my $before = cpu;
        sleep PAUSE;
        work($rounds);
        my ($end, $took) = (now, cpu() - $before);
        $shortest = $took if $took < $shortest;
        # a processor that shares its core is slower without a stall
        $took = SHARED * $shortest if $took > SHARED * $shortest;
        my $late = $end - $at - PAUSE - $took;
        $late = 0 if $late < 0;
        $stalled += ($end - $at) * $late / ($late + $took);
        $at = $end;
        syswrite $notes, pack 'd3', $end, $stalled, $late;
    }
}

# Beats of others, without work, as long as this process lives. Each is a session
# of its own, as a node is. Their notes have no sum of stalls.
sub watch {
    my ($path) = @_;
    my $parent = $$;
    for my $n (1 .. ALL) {
        next if fork // croak "fork: $!";
        setsid;
        $n == ALL ? watch_all("$path.$n", $parent)
            : watch_one("$path.$n", $parent);
        _exit(0);
    }
}

sub watch_one {
    my ($path, $parent) = @_;
    open my $notes, '>', $path or croak "$path: $!";
    my $at = now;
    while (getppid == $parent) {
        sleep OTHERS_PAUSE;
        my $end = now;
        syswrite $notes, pack 'd3', $end, 0, $end - $at - OTHERS_PAUSE;
        # a write that takes long is part of the next beat
        $at = $end;
    }
}

# Notes the longest time for which one of the processes has waited.
sub watch_all {
    my ($path, $parent) = @_;
    open my $notes, '>', $path or croak "$path: $!";
    my ($tree, $waited) = (getcwd, {});
    while (getppid == $parent) {
        sleep ALL_PAUSE;
        my $longest = waits('/proc', $tree, $waited);
        syswrite $notes, pack 'd3', now, 0, $longest;
    }
}

# The longest wait for a processor that has ended since the last call, in seconds,
# of a process that runs in $tree or below, or of the kernel's for sockets: it is
# added when it ends. $waited has what there was, in ns, by process; $proc is /proc.
# Most processes are none of these, and opening files of /proc is dear: they are
# read again after some calls only, as new ones.
sub waits {
    my ($proc, $tree, $waited) = @_;
    my ($unread, $longest, %is, %others) = ($waited->{unread}, 0);
    opendir my $dir, $proc or return 0;
    for my $pid (grep { /^\d+$/ } readdir $dir) {
        my $left = $unread->{$pid} // 0;
        if ($left > 1) {
            $others{$pid} = $left - 1;
            next;
        }
        if (!defined $waited->{$pid} && !is_counted("$proc/$pid", $tree)) {
            $others{$pid} = UNREAD;
            next;
        }
        open my $stat, '<', "$proc/$pid/schedstat" or next;
        sysread $stat, my $text, 100;
        (undef, $is{$pid}) = split ' ', $text // '';
        my $took = ($is{$pid} // 0) / 1e9 - ($waited->{$pid} // next) / 1e9;
        $longest = $took if $took > $longest
            && is_counted("$proc/$pid", $tree);
    }
    %$waited = (%is, unread => \%others);
    return $longest;
}

sub is_counted {
    my ($process, $tree) = @_;
    return index(readlink("$process/cwd") // '', $tree) == 0
        || comm($process) =~ /^ksoftirqd/;
}

sub comm {
    my ($process) = @_;
    open my $fh, '<', "$process/comm" or return '';
    return <$fh> // '';
}

sub work {
    my ($rounds) = @_;
    my $x = 0;
    $x += $_ for 1 .. $rounds;
    return $x;
}

# Rounds of work that take WORK seconds of a processor that is not shared.
sub calibrate {
    my ($rounds, $best) = (1000, 9);
    for (1 .. 20) {
        my $begin = cpu;
        work($rounds);
        my $took = cpu() - $begin;
        $best = $took if $took < $best;
    }
    return int $rounds * WORK / $best;
}

###########################################################################
# reading

# The notes in this file; nothing where there is none.
sub new {
    my ($class, $path) = @_;
    open my $notes, '<', $path or return;
    return bless { notes => $notes, path => $path }, $class;
}

sub count { return int((-s $_[0]{notes}) / RECORD) }

sub record {
    my ($self, $n) = @_;
    sysseek $self->{notes}, $n * RECORD, 0;
    sysread $self->{notes}, my $record, RECORD;
    return unpack 'd3', $record;
}

# Number of the first record that is not before this time.
sub find {
    my ($self, $time, $low, $high) = @_;
    while ($low < $high) {
        my $middle = int(($low + $high) / 2);
        (($self->record($middle))[0] < $time) ? ($low = $middle + 1)
            : ($high = $middle);
    }
    return $low;
}

# The stall from the beginning to this time.
sub until_time {
    my ($self, $time) = @_;
    my $count = $self->count or return 0;
    my ($last, $stalled) = $self->record($count - 1);
    if ($time >= $last) {
        my $late = $time - $last - LATE;
        return $stalled + ($late > 0 ? $late : 0);
    }
    my $n = $self->find($time, 0, $count - 1);
    ($last, $stalled) = $self->record($n);
    my ($before, $least) = $n ? $self->record($n - 1) : ($last, $stalled);
    return $last == $before ? $stalled : $least
        + ($stalled - $least) * ($time - $before) / ($last - $before);
}

# Seconds between two times that the machine did not give.
sub stalled {
    my ($self, $from, $to) = @_;
    return $self->until_time($to) - $self->until_time($from);
}

# The longest delay of a beat between two times.
sub longest {
    my ($self, $from, $to) = @_;
    my $count = $self->count or return 0;
    my $longest = 0;
    for my $n ($self->find($from, 0, $count) .. $count - 1) {
        my ($time, undef, $late) = $self->record($n);
        $longest = $late if $late > $longest;
        last if $time > $to;
    }
    return $longest;
}

# The same of that one of the others for which it was the longest.
sub longest_of_others {
    my ($self, $from, $to) = @_;
    return max 0, map { $_->longest($from, $to) }
        map { ref($self)->new("$self->{path}.$_") // () } 1 .. ALL;
}

1;
