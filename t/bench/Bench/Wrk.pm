package Bench::Wrk;

# One wrk process: a number of connections, each with one request at a time,
# until stop(). Its results come from wrk.lua.
#
# Called by: Bench::Quiet, Bench::Contended.

use strict;
use warnings;

use Carp qw(croak);
use FindBin;
use List::Util qw(max sum0);
use POSIX qw(SIGINT);

use Dsem::Process;
use Dsem::Wait qw(wait_for);

use constant LONGEST => 3600;

# cpus => [...]: the CPUs on which it may run
sub start {
    my ($class, $stage, $url, $connections, %opt) = @_;
    my $log = $stage->dir . '/wrk.' . ++$stage->{wrks};
    my @pin = $opt{cpus} ? ('taskset', '-c', join ',', @{ $opt{cpus} }) : ();
    my $process = Dsem::Process->spawn(name => 'wrk', log => $log, argv => [
        '/usr/bin/env', @pin, 'wrk', '-t1', "-c$connections",
        '-d' . LONGEST . 's', '-s', "$FindBin::Bin/wrk.lua", $url,
    ]);
    wait_for { handles_sigint($process->pid) } 10, 'wrk to begin';
    return bless { process => $process, log => $log }, $class;
}

# True when the process is wrk and handles SIGINT: before that the signal would
# kill it.
sub handles_sigint {
    my ($pid) = @_;
    open my $fh, '<', "/proc/$pid/status" or croak 'wrk has ended';
    my $status = join '', <$fh>;
    my ($caught) = $status =~ /^SigCgt:\s*\w*(\w{8})$/m;
    return $status =~ /^Name:\s*wrk$/m && hex($caught) & 1 << SIGINT - 1;
}

# Ends wrk and returns its results. requests: responses of any status; refused:
# those without success; failed: connections; seconds; latency: evenly spaced
# quantiles, and max, in ms.
sub stop {
    my ($self) = @_;
    # a signal that arrives before wrk sleeps does not wake it
    wait_for {
        $self->{process}->signal('INT');
        $self->{process}->wait_exit(0.2);
    } 10, 'wrk to stop';
    open my $fh, '<', $self->{log} or croak "$self->{log}: $!";
    my @lines = <$fh>;
    my ($bench) = grep { /^bench / } @lines
        or croak "wrk failed: @lines";
    my (undef, $requests, $us, $refused, $failed) = split ' ', $bench;
    my ($max) = map { /^max (\S+)/ ? $1 : () } @lines;
    unlink $self->{log};
    return {
        requests => $requests, refused => $refused, failed => $failed,
        seconds => $us / 1e6, max => $max / 1e3,
        latency => [ map { /^latency (\S+)/ ? $1 / 1e3 : () } @lines ],
    };
}

# A quantile over the latencies of several processes; each value is weighted by
# the number of requests of its process.
sub latency {
    my ($part, @seen) = @_;
    my @all = sort { $a->[0] <=> $b->[0] } map {
        my $weight = $_->{requests};
        map { [ $_, $weight ] } @{ $_->{latency} };
    } @seen;
    my $left = $part * sum0(map { $_->[1] } @all);
    for (@all) {
        $left -= $_->[1];
        return $_->[0] if $left <= 0;
    }
    return;
}

sub worst { max map { $_->{max} } @_ }

1;
