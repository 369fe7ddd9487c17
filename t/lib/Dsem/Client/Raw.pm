package Dsem::Client::Raw;

# A TCP connection, or one to the path of a socket, without a protocol: sends
# and receives bytes, and ends by shutdown, FIN or RST.
#
# Called by: tests, Dsem::Client::Request.

use strict;
use warnings;

use Carp qw(croak);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Socket qw(SOL_SOCKET SO_LINGER SO_RCVBUF IPPROTO_TCP TCP_NODELAY);

use Dsem::Wait qw(wait_for);

# rcvbuf: receive buffer in bytes; a small one makes a slow reader
sub new {
    my ($class, $host, $port, %opt) = @_;
    my $path = $host =~ m{^/} && $host;
    my $sock = $path ? IO::Socket::UNIX->new(Peer => $path)
        : IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port,
            Proto => 'tcp', Timeout => 15);
    $sock or croak 'connect to ' . ($path || "$host:$port") . ": $!";
    setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1 unless $path;
    setsockopt $sock, SOL_SOCKET, SO_RCVBUF, $opt{rcvbuf} if $opt{rcvbuf};
    return bless {
        sock => $sock, select => IO::Select->new($sock),
        host => $path ? 'localhost' : "$host:$port", eof => 0,
    }, $class;
}

sub sock { $_[0]{sock} }
sub host { $_[0]{host} }
sub eof { $_[0]{eof} }
sub error { $_[0]{error} }

sub send {
    my ($self, $bytes) = @_;
    while (length $bytes) {
        my $n = syswrite $self->{sock}, $bytes;
        croak "send: $!" unless defined $n;
        substr $bytes, 0, $n, '';
    }
    return $self;
}

sub readable {
    my ($self, $timeout) = @_;
    return $self->{select}->can_read($timeout);
}

# Bytes that are buffered or arrive within the timeout; '' when none do, or the
# peer has closed (then eof is true, and error is set after an RST).
sub read {
    my ($self, $timeout) = @_;
    return '' if $self->{eof} || !$self->readable($timeout // 15);
    my $n = sysread $self->{sock}, my $bytes, 262_144;
    $self->{error} = "$!" unless defined $n;
    $self->{eof} = 1 unless $n;
    return $n ? $bytes : '';
}

sub read_until {
    my ($self, $re, $timeout) = @_;
    my $got = '';
    wait_for {
        $got .= $self->read(0);
        $got =~ $re || $self->{eof};
    } $timeout, "$re in '$got'";
    return $got;
}

sub read_eof {
    my ($self, $timeout) = @_;
    return $self->read_until(qr/(?!)/, $timeout);
}

# Closes the sending direction only.
sub shutdown {
    my ($self) = @_;
    CORE::shutdown $self->{sock}, 1;
    return $self;
}

sub close {
    my ($self) = @_;
    $self->{eof} = 1;
    CORE::close $self->{sock};
    return $self;
}

# Ends with an RST.
sub reset {
    my ($self) = @_;
    setsockopt $self->{sock}, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    return $self->close;
}

1;
