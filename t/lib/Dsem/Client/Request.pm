package Dsem::Client::Request;

# One HTTP request in flight, and its response when complete.
#
# Called by: Dsem::Client; tests hold it.

use strict;
use warnings;

use Carp qw(croak);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use Dsem::Wait qw(now time_factor);

sub new {
    my ($class, $raw, $path, $header, $option) = @_;
    my $self = bless {
        raw => $raw, in => '', method => $option->{-method} // 'GET',
        nonce => $header->{'X-Nonce'},
        started => clock_gettime(CLOCK_MONOTONIC),
    }, $class;
    $raw->send($self->_head($path, $header, $option)
        . ($option->{-body} // ''));
    return $self;
}

sub _head {
    my ($self, $path, $header, $option) = @_;
    my $version = $option->{-version} // '1.1';
    my $body = $option->{-body};
    my %send = (
        Host => $self->{raw}->host, Connection => 'close',
        (defined $body ? ('Content-Length' => length $body) : ()), %$header);
    return join "\r\n", "$self->{method} $path HTTP/$version",
        map({ "$_: $send{$_}" } grep { defined $send{$_} } sort keys %send),
        '', '';
}

sub nonce { $_[0]{nonce} }
sub raw { $_[0]{raw} }
sub sock { $_[0]{raw}->sock }

# Reads buffered bytes; true when the response is complete or has failed.
sub done {
    my ($self) = @_;
    return 1 if defined $self->{ended};
    my $raw = $self->{raw};
    while (1) {
        my $bytes = $raw->read(0);
        last unless length $bytes;
        $self->{in} .= $bytes;
        return $self->_end if $self->_complete;
    }
    return 0 unless $raw->eof;
    $self->{error} = $raw->error // 'closed early'
        unless $self->_complete_at_eof;
    return $self->_end;
}

sub _end {
    my ($self) = @_;
    $self->{ended} = clock_gettime(CLOCK_MONOTONIC);
    return 1;
}

sub _parse_head {
    my ($self) = @_;
    return 1 if $self->{status};
    # remove interim responses
    1 while $self->{in} =~ s/^HTTP\/1\.1 1(?!01)\d\d [^\r]*\r\n
        (?:[^\r]+\r\n)*\r\n//x;
    $self->{in} =~ s/^HTTP\/[\d.]+\ (\d+)[^\r]*\r\n
        ((?:[^\r]+\r\n)*)\r\n//x or return 0;
    $self->{status} = $1;
    for (split /\r\n/, $2) {
        my ($name, $value) = /^([^:]+):\s*(.*)$/ or next;
        push @{ $self->{headers}{ lc $name } }, $value;
    }
    return 1;
}

sub _complete {
    my ($self) = @_;
    $self->_parse_head or return 0;
    return 1 if $self->{method} eq 'HEAD'
        || $self->{status} =~ /^(?:101|204|304)$/;
    my $length = $self->header('Content-Length');
    return length $self->{in} >= $length if defined $length;
    return $self->{in} =~ /(?:^|\r\n)0\r\n\r\n$/ if $self->_chunked;
    return 0;
}

sub _complete_at_eof {
    my ($self) = @_;
    return $self->{status} && !$self->_chunked
        && !defined $self->header('Content-Length');
}

sub _chunked {
    my ($self) = @_;
    return ($self->header('Transfer-Encoding') // '') eq 'chunked';
}

sub wait {
    my ($self, $timeout) = @_;
    my $begin = now;
    until ($self->done) {
        my $left = ($timeout // 30) * time_factor - Dsem::Wait::took($begin);
        croak "timed out waiting for the answer to $self->{nonce}"
            if $left <= 0;
        $self->{raw}->readable($left);
    }
    return $self;
}

# 0: ended without a status, see error; undef: still in flight
sub status { $_[0]->done ? $_[0]{status} // 0 : undef }
sub error { $_[0]{error} }
sub headers { $_[0]{headers} // {} }

sub header {
    my ($self, $name) = @_;
    my $values = $self->{headers}{ lc $name } or return;
    return join ', ', @$values;
}

sub body {
    my ($self) = @_;
    return $self->{in} unless $self->_chunked;
    my ($in, $body) = ($self->{in}, '');
    while ($in =~ s/^([0-9a-f]+)[^\r]*\r\n//i && hex $1) {
        $body .= substr $in, 0, hex $1, '';
        $in =~ s/^\r\n//;
    }
    return $body;
}

# Seconds from the request sent to its end seen by done().
sub latency {
    my ($self) = @_;
    return defined $self->{ended} ? $self->{ended} - $self->{started} : undef;
}

# The same without the time in which the machine stalled.
sub took {
    my ($self) = @_;
    return defined $self->{ended}
        ? Dsem::Wait::took(@$self{qw(started ended)}) : undef;
}

sub close {
    my ($self) = @_;
    $self->{raw}->close;
    return $self;
}

sub abort {
    my ($self) = @_;
    $self->{raw}->reset;
    return $self;
}

1;
