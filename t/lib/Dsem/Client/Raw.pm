package Dsem::Client::Raw;

# A TCP connection, or one to the path of a socket, without a protocol: sends
# and receives bytes, and ends by shutdown, FIN or RST.
#
# Called by: tests, Dsem::Client::Request.

use strict;
use warnings;

use Carp qw(croak);
use Errno qw(EAGAIN);
use IO::Socket::UNIX;
use Socket qw(PF_INET SOCK_STREAM IPPROTO_TCP TCP_NODELAY SOL_SOCKET SO_LINGER
    SO_RCVBUF SO_SNDTIMEO MSG_DONTWAIT inet_aton pack_sockaddr_in);

use Dsem::Wait qw(wait_for);

# seconds
use constant DEADLINE => 15;

# linux/filter.h: one instruction, BPF_RET|BPF_K with 0: nothing is accepted
my ($SO_ATTACH_FILTER, $SO_DETACH_FILTER) = (26, 27);
my $DROP = pack 'SCCL', 6, 0, 0, 0;

# rcvbuf: receive buffer in bytes; a small one makes a slow reader
sub new {
    my ($class, $host, $port, %opt) = @_;
    my $path = $host =~ m{^/} && $host;
    my $sock = $path ? IO::Socket::UNIX->new(Peer => $path)
        : _tcp($host, $port);
    $sock or croak 'connect to ' . ($path || "$host:$port") . ": $!";
    setsockopt $sock, SOL_SOCKET, SO_RCVBUF, $opt{rcvbuf} if $opt{rcvbuf};
    vec(my $bits = '', fileno $sock, 1) = 1;
    return bless {
        sock => $sock, bits => $bits,
        host => $path ? 'localhost' : "$host:$port", eof => 0,
    }, $class;
}

# Tests connect so often that IO::Socket and IO::Select, with three times as many
# system calls and a list as long as the number of the socket, are dear.
sub _tcp {
    my ($host, $port) = @_;
    socket my $sock, PF_INET, SOCK_STREAM, IPPROTO_TCP or return;
    setsockopt $sock, SOL_SOCKET, SO_SNDTIMEO, pack 'l!l!', DEADLINE, 0;
    connect $sock, pack_sockaddr_in($port, inet_aton($host)) or return;
    setsockopt $sock, SOL_SOCKET, SO_SNDTIMEO, pack 'l!l!', 0, 0;
    setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1;
    return $sock;
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
    return select(my $bits = $self->{bits}, undef, undef, $timeout) > 0;
}

# Bytes that are buffered or arrive within the timeout; '' when none do, or the
# peer has closed (then eof is true, and error is set after an RST).
sub read {
    my ($self, $timeout) = @_;
    return '' if $self->{eof};
    $timeout //= DEADLINE;
    my $bytes = $self->_buffered;
    $bytes = $self->_buffered if !length $bytes && !$self->{eof} && $timeout
        && $self->readable($timeout);
    return $bytes;
}

sub _buffered {
    my ($self) = @_;
    my $read = recv $self->{sock}, my $bytes, 262_144, MSG_DONTWAIT;
    return '' if !defined $read && $! == EAGAIN;
    $self->{error} = "$!" unless defined $read;
    $self->{eof} = 1 unless length $bytes;
    return $bytes;
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

# As if its cable was pulled: nothing that nginx sends is acknowledged any more.
sub pull { return $_[0]->_filter($SO_ATTACH_FILTER) }
sub plug { return $_[0]->_filter($SO_DETACH_FILTER) }

sub _filter {
    my ($self, $option) = @_;
    my $program = pack 'S x![P] P', length($DROP) / 8, $DROP;
    setsockopt($self->{sock}, SOL_SOCKET, $option, $program)
        or die "setsockopt: $!";
    return $self;
}

# Ends with an RST.
sub reset {
    my ($self) = @_;
    setsockopt $self->{sock}, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    return $self->close;
}

1;
