package Bench::Poller;

# Clients that poll an URL at a fixed rate, as pages and Prometheus do: some
# kept connections in turn, a few requests at a time.
#
# Called by: Bench::Quiet.

use strict;
use warnings;

use Carp qw(croak);
use IO::Socket::INET;
use Time::HiRes qw(sleep);

use Bench::Proc;
use Dsem::Process;
use Dsem::Wait qw(now wait_for);

# requests a second; connections, each with one request at a time
use constant { RATE => 1000, CONNECTIONS => 40 };

# seconds between two bursts
use constant STEP => 0.005;

# cpus => [...]: the CPUs on which it may run
sub start {
    my ($class, $stage, $url, %opt) = @_;
    my $log = $stage->dir . '/poller.' . ++$stage->{pollers};
    my ($host, $path) = $url =~ m{^http://([^/]+)(/.*)$}
        or croak "no URL: $url";
    my $process = Dsem::Process->spawn(name => 'poller', log => $log,
        code => sub { poll($host, $path) });
    Bench::Proc::pin($process->pid, @{ $opt{cpus} }) if $opt{cpus};
    wait_for { -s $log } 10, 'the poller to begin';
    return bless { process => $process, log => $log }, $class;
}

# Ends it: responses per second, and their size.
sub stop {
    my ($self) = @_;
    $self->{process}->signal('TERM');
    $self->{process}->wait_exit(10) or croak 'the poller does not end';
    open my $fh, '<', $self->{log} or croak "$self->{log}: $!";
    my ($line) = grep { /^polled/ } <$fh> or croak 'the poller failed';
    unlink $self->{log};
    my (undef, $n, $bytes, $seconds) = split ' ', $line;
    return { rate => $n / $seconds, size => $n ? $bytes / $n : 0 };
}

sub poll {
    my ($host, $path) = @_;
    my ($n, $bytes, $begin, $ended) = (0, 0, now, 0);
    local $SIG{TERM} = sub { $ended = 1 };
    my $request = "GET $path HTTP/1.1\r\nHost: $host\r\n\r\n";
    my @free = map { connection($host) } 1 .. CONNECTIONS;
    my (@busy, $sent);
    print "begun\n";
    while (!$ended) {
        sleep STEP;
        @busy = grep {
            my $size = answered($_);
            $n++, $bytes += $size, push @free, $_ if $size;
            !$size;
        } @busy;
        while (@free && ($sent // 0) < RATE * (now - $begin)) {
            my $conn = shift @free;
            syswrite $conn->{sock}, $request;
            push @busy, $conn;
            $sent++;
        }
    }
    printf "polled %d %d %.3f\n", $n, $bytes, now - $begin;
}

sub connection {
    my ($host) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => $host)
        or die "$host: $@\n";
    $sock->blocking(0);
    return { sock => $sock, got => '' };
}

# The size of the body if the response is complete.
sub answered {
    my ($conn) = @_;
    my $n = sysread $conn->{sock}, $conn->{got}, 1 << 20,
        length $conn->{got};
    die "connection closed\n" if defined $n && $n == 0;
    my $end = index $conn->{got}, "\r\n\r\n";
    return 0 if $end < 0;
    die substr($conn->{got}, 0, $end), "\n"
        if $conn->{got} !~ /^HTTP\/1\.1 200 /;
    my ($size) = $conn->{got} =~ /^Content-Length: (\d+)/mi
        or die "no Content-Length\n";
    return 0 if length $conn->{got} < $end + 4 + $size;
    $conn->{got} = '';
    return $size;
}

1;
