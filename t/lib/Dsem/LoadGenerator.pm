package Dsem::LoadGenerator;

# The load's own process: HTTP/1.1 clients on bare sockets, in a closed loop (a
# number of clients, each with one request at a time) or an open one (a rate of
# requests, or the seconds at which they begin, independent of responses). Each
# request has a nonce and ends in exactly one status: a code, or a word for its
# failure.
#
# Called by: Dsem::Load, in the child process. Every request ends in finish.

use strict;
use warnings;

# select: with epoll a timer is a multiple of a millisecond
BEGIN { $ENV{LIBEV_FLAGS} = 1 }
use EV;
use Errno qw(EAGAIN EWOULDBLOCK EINPROGRESS);
use Socket qw(:DEFAULT SO_LINGER IPPROTO_TCP TCP_NODELAY SOCK_NONBLOCK);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
use List::Util qw(max sum0);

# s, between two looks for requests that are due
use constant TICK => 0.001;

sub now () { clock_gettime(CLOCK_MONOTONIC) }

sub run {
    my (%opt) = @_;
    my $self = bless {
        clients => 1, keepalive => 0, timeout => 30, %opt,
        begun => 0, ended => 0, flying => {}, statuses => {},
        latencies => [], records => [], mismatched => 0,
        keep_records => $opt{records}, begin => now, idle => {},
    };
    $self->{requests} = @{ $self->{at} } if $self->{at};
    $self->{open} = $self->{rate} || $self->{at};
    my @watchers = $self->watchers;
    $self->{open} ? $self->tick : $self->next_one
        for 1 .. ($self->{open} ? 1 : $self->{clients});
    EV::run() if %{ $self->{flying} } || $self->more;
    return $self->result;
}

sub watchers {
    my ($self) = @_;
    my @watchers = (
        EV::signal('TERM', sub { $self->{stopped} = 1; $self->check_end }),
        EV::timer(0.1, 0.1, sub { $self->expire }),
    );
    push @watchers, EV::timer($self->{seconds}, 0,
        sub { $self->{stopped} = 1; $self->check_end }) if $self->{seconds};
    $self->{ticker} = EV::timer_ns(TICK, 0, sub { $self->tick });
    return @watchers;
}

sub more {
    my ($self) = @_;
    return !$self->{stopped}
        && (!$self->{requests} || $self->{begun} < $self->{requests});
}

sub check_end {
    my ($self) = @_;
    EV::break() unless %{ $self->{flying} } || $self->more;
}

# The open loop: starts all requests that are due, and comes back for the next.
sub tick {
    my ($self) = @_;
    my $elapsed = now - $self->{begin};
    $self->begin_one while $self->more && $self->next_at <= $elapsed;
    return $self->check_end if !$self->more;
    $self->{ticker}->set(max(TICK, $self->next_at - $elapsed));
    $self->{ticker}->start;
}

# Seconds from the beginning to the next request of an open loop.
sub next_at {
    my ($self) = @_;
    my $i = $self->{begun};
    return $self->{at} ? $self->{at}[$i] : $i / $self->{rate};
}

sub next_one {
    my ($self) = @_;
    return $self->begin_one if $self->more;
    $self->check_end;
}

sub expire {
    my ($self) = @_;
    my $oldest = now - $self->{timeout};
    $self->finish($_, 'timeout')
        for grep { $_->{start} < $oldest } values %{ $self->{flying} };
}

###########################################################################
# a request

sub begin_one {
    my ($self) = @_;
    my $i = $self->{begun}++;
    my ($url, %header) = $self->{request} ? $self->{request}->($i)
        : $self->{urls}[ $i % @{ $self->{urls} } ];
    my $target = $self->{parsed}{$url} //= parse_url($url);
    my $nonce = "$self->{name}-$i";
    my $r = {
        url => $url, nonce => $nonce, start => now, in => '',
        out => request_text($self, $target, $nonce, \%header),
        target => $target,
    };
    $self->{flying}{$nonce} = $r;
    plan_abort($self, $r) if $self->{abort};
    my $sock = pop @{ $self->{idle}{ $target->{peer} } //= [] };
    $r->{reused} = defined $sock;
    $sock //= open_socket($target->{address});
    return $self->finish($r, 'connect') unless $sock;
    $r->{sock} = $sock;
    $r->{reader} = EV::io($sock, EV::READ, sub { readable($self, $r) });
    write_out($self, $r);
}

sub parse_url {
    my ($url) = @_;
    my ($host, $port, $path) = $url =~ m{^http://([\d.]+):(\d+)(/.*)?$}
        or die "not http://a.b.c.d:port/: $url\n";
    return {
        address => pack_sockaddr_in($port, inet_aton($host)),
        peer => "$host:$port", path => $path // '/',
    };
}

sub request_text {
    my ($self, $target, $nonce, $header) = @_;
    my $method = delete $header->{-method} // 'GET';
    my $body = delete $header->{-body};
    $header->{'Content-Length'} = length $body if defined $body;
    return "$method $target->{path} HTTP/1.1\r\nHost: $target->{peer}\r\n"
        . "X-Nonce: $nonce\r\n"
        . ($self->{keepalive} ? '' : "Connection: close\r\n")
        . join('', map { "$_: $header->{$_}\r\n" } keys %$header)
        . "\r\n" . ($body // '');
}

sub open_socket {
    my ($address) = @_;
    socket my $sock, PF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0 or return;
    setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1;
    connect $sock, $address or $! == EINPROGRESS or return;
    return $sock;
}

sub plan_abort {
    my ($self, $r) = @_;
    my $after = $self->{abort}->();
    return unless defined $after;
    $r->{abort} = EV::timer($after, 0, sub { $self->finish($r, 'aborted') });
}

sub write_out {
    my ($self, $r) = @_;
    my $n = syswrite $r->{sock}, $r->{out};
    if (defined $n) {
        substr $r->{out}, 0, $n, '';
        return delete $r->{writer} unless length $r->{out};
    } elsif ($! != EAGAIN && $! != EWOULDBLOCK && !$!{ENOTCONN}) {
        return $self->finish($r, $!{ECONNREFUSED} ? 'connect' : 'reset');
    }
    $r->{writer} //= EV::io($r->{sock}, EV::WRITE,
        sub { write_out($self, $r) });
}

sub readable {
    my ($self, $r) = @_;
    my $n = sysread $r->{sock}, $r->{in}, 65_536, length $r->{in};
    if (!defined $n) {
        return if $! == EAGAIN || $! == EWOULDBLOCK;
        return $self->finish($r, $!{ECONNREFUSED} ? 'connect' : 'reset');
    }
    return ended_by_peer($self, $r) if $n == 0;
    read_head($r) or return unless $r->{status};
    $self->finish($r, $r->{status}) if is_whole($r);
}

sub ended_by_peer {
    my ($self, $r) = @_;
    return $self->finish($r, 'empty') unless length $r->{in};
    return $self->finish($r, 'cut')
        if !$r->{status} || defined $r->{length} || $r->{chunked};
    $self->finish($r, $r->{status});
}

sub read_head {
    my ($r) = @_;
    my $end = index $r->{in}, "\r\n\r\n";
    return 0 if $end < 0;
    my $head = substr $r->{in}, 0, $end + 4, '';
    ($r->{status}) = $head =~ /^HTTP\/1\.[01] (\d{3})/ or return 0;
    ($r->{length}) = $head =~ /^Content-Length: (\d+)/mi;
    ($r->{echo}) = $head =~ /^X-Nonce: ([^\r]*)/mi;
    $r->{chunked} = $head =~ /^Transfer-Encoding: chunked/mi;
    $r->{keep} = $head !~ /^Connection: close/mi;
    $r->{length} = 0 if $r->{status} =~ /^(?:204|304)$/;
    return 1;
}

sub is_whole {
    my ($r) = @_;
    return length $r->{in} >= $r->{length} if defined $r->{length};
    return $r->{chunked} && $r->{in} =~ /(?:^|\r\n)0\r\n\r\n$/;
}

sub finish {
    my ($self, $r, $status) = @_;
    delete $self->{flying}{ $r->{nonce} } or return;
    my $latency = now - $r->{start};
    my $sock = delete $r->{sock};
    delete @$r{qw(reader writer abort)};
    if ($sock) {
        setsockopt $sock, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0
            if $status eq 'aborted' || $status eq 'timeout';
        push @{ $self->{idle}{ $r->{target}{peer} } }, $sock
            if $self->{keepalive} && $r->{keep} && $status =~ /^\d/;
    }
    $self->{ended}++;
    $self->{statuses}{$status}++;
    push @{ $self->{latencies} }, $latency if $status eq '200';
    $self->{mismatched}++
        if defined $r->{echo} && $r->{echo} ne $r->{nonce};
    push @{ $self->{records} }, {
        url => $r->{url}, nonce => $r->{nonce}, start => $r->{start},
        latency => $latency, status => $status,
    } if $self->{keep_records};
    return $self->check_end if $self->{open};
    # not from here: a connect that fails at once would recurse
    my $again;
    $again = EV::timer(0, 0, sub { undef $again; $self->next_one });
}

###########################################################################

sub result {
    my ($self) = @_;
    my @sorted = sort { $a <=> $b } @{ $self->{latencies} };
    my $at = sub { @sorted ? $sorted[ int($_[0] * $#sorted) ] : undef };
    my $seconds = now - $self->{begin};
    return {
        statuses => $self->{statuses}, count => $self->{ended},
        seconds => $seconds, rate => $self->{ended} / $seconds,
        begin => $self->{begin}, end => now,
        p50 => $at->(0.5), p90 => $at->(0.9), p99 => $at->(0.99),
        max => $at->(1), mismatched => $self->{mismatched},
        mean => @sorted ? sum0(@sorted) / @sorted : undef,
        records => $self->{records},
    };
}

1;
