package Fleet::Trial;

# make run and make demo, as their tests start them: without a terminal or on
# one, on ports of its own, short, on this machine or on one that seems to be
# busy.
#
# Called by: t/house/run.t, t/house/run_ended.t, t/house/demo.t.

use strict;
use warnings;

use Exporter qw(import);
use IO::Pty;
use IO::Select;
use POSIX ();

use Dsem::Test ();
use Dsem::Metronome;
use Dsem::Wait qw(now);

use Fleet::Judge;
use Fleet::Ports;
use Fleet::Stack;

our @EXPORT_OK = qw(command free_ports without_terminal on_terminal left
    busy_metronome quiet);

sub command {
    my ($port, $seconds, $script) = @_;
    return "$Dsem::Test::ROOT/t/run/" . ($script // 'fleet.pl'),
        "--port=$port", "--seconds=$seconds";
}

# $n ports, each with the others of a demonstration.
sub free_ports {
    my ($n) = @_;
    my (@ports, %taken);
    while (@ports < $n) {
        my $port = Dsem::Test->free_port;
        my @its = Fleet::Stack->new(port => $port)->ports;
        next if grep { $taken{$_} || Fleet::Ports::fault($_) } @its;
        push @ports, $port;
        @taken{@its} = (1) x @its;
    }
    return @ports;
}

# Its number, and the end of a pipe with its output and errors.
sub without_terminal {
    my (@which) = @_;
    my $pid = open(my $from, '-|') // die "fork: $!";
    if (!$pid) {
        open STDERR, '>&', \*STDOUT or POSIX::_exit(127);
        exec $^X, command(@which) or POSIX::_exit(127);
    }
    return $pid, $from;
}

# In a session of its own, as a shell has it. Types what it is given, and
# returns all that was shown.
sub on_terminal {
    my (@which) = @_;
    my $pty = IO::Pty->new;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        $pty->make_slave_controlling_terminal;
        POSIX::dup2(fileno $pty->slave, $_) for 0 .. 2;
        exec $^X, command(@which) or POSIX::_exit(127);
    }
    $pty->close_slave;
    my ($ready, $shown) = (IO::Select->new($pty), '');
    return $pid, sub {
        syswrite $pty, $_ for @_;
        1 while $ready->can_read(0)
            && sysread $pty, $shown, 4096, length $shown;
        return $shown;
    };
}

# Command lines of processes of the fleet with this port.
sub left {
    my ($port) = @_;
    return grep { m{--port=$port\b|build/(?:run|demo)/$port/} }
        map { slurp("/proc/$_/cmdline") =~ tr/\0/ /r }
        grep { $_ != $$ } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
}

sub slurp {
    my ($path) = @_;
    open my $fh, '<', $path or return '';
    local $/;
    return scalar(<$fh>) // '';
}

###########################################################################
# the machine

# Notes of a metronome that did not get a beat since now.
sub busy_metronome {
    my ($path) = @_;
    open my $notes, '>', $path or die "$path: $!";
    print $notes pack 'd3', now, 0, 0;
    close $notes;
    return $path;
}

# Whether the machine stalled in no second since then so much that an act could
# not be judged.
sub quiet {
    my ($from) = @_;
    my $notes = Dsem::Metronome->new($ENV{DSEM_METRONOME});
    my $to = now;
    return 0 if $notes->longest($from, $to) > Fleet::Judge::AT_ONCE;
    for (my $at = $from; $at < $to; $at += 0.25) {
        return 0 if $notes->stalled($at, $at + 1) > Fleet::Judge::STALLED;
    }
    return 1;
}

1;
