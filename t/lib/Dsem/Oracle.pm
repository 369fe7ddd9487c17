package Dsem::Oracle;

# The oracle's own process: a small HTTP/1.x server on bare sockets. A request
# counts from its head read to its response written to the kernel, or to the FIN
# or RST of nginx. It is counted down before the last byte is written, because
# nginx may send the next request at once.
#
# Called by: Dsem::Upstream, in the child process. Only count_up and
# count_down change the counts.

use strict;
use warnings;

# select: the other methods round a timer up to the next millisecond
BEGIN { $ENV{LIBEV_FLAGS} //= 1 }
use EV;
use Errno qw(EAGAIN EWOULDBLOCK EINTR);
use IO::Handle;
use IO::Poll;
use Socket qw(SOL_SOCKET SO_LINGER IPPROTO_TCP TCP_NODELAY MSG_PEEK
    MSG_DONTWAIT unpack_sockaddr_in);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use Dsem::Control;

# of poll(): the peer sends no more
use constant POLLRDHUP => 0x2000;

sub run {
    my ($listen, $control, %opt) = @_;
    my $self = bless { service => $opt{service} // 0, conn => {},
        fresh => [], busy => 0, queue => [], listen => $listen };
    $self->do_reset;
    my @watchers = map { $self->accept_on($_) } @$listen;
    push @watchers, $self->stream_to($opt{stream}) if $opt{stream};
    push @watchers, Dsem::Control::serve($control, $self);
    EV::run();
}

sub accept_on {
    my ($self, $listen) = @_;
    $listen->blocking(0);
    return EV::io($listen, EV::READ, sub { accept_all($self, $listen) });
}

sub accept_all {
    my ($self, $listen) = @_;
    while (accept my $sock, $listen) {
        $sock->blocking(0);
        setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1;
        $self->{count}{accepted}++;
        my $conn = { sock => $sock, in => '', out => '', oracle => $self };
        $self->{conn}{$conn} = $conn;
        push @{ $self->{fresh} }, $conn;
        $conn->{reader} = EV::io($sock, EV::READ,
            sub { read_fresh($self); readable($conn) if $self->{conn}{$conn} });
    }
    read_fresh($self);
}

# First requests are read in the order of their connections: the event loop
# reports them in any, and one that had no byte yet may have them now. Looked at
# from the last one, so that those before it have theirs if it has.
sub read_fresh {
    my ($self) = @_;
    my @read;
    for my $conn (reverse @{ $self->{fresh} }) {
        my $got = recv $conn->{sock}, my $byte, 1, MSG_PEEK | MSG_DONTWAIT;
        $conn->{fresh} = !defined $got && $!{EAGAIN};
        unshift @read, $conn unless $conn->{fresh};
    }
    @{ $self->{fresh} } = grep { $_->{fresh} } @{ $self->{fresh} };
    readable($_) for @read;
}

# Reads what has come before a call of the test: the event loop may report the
# call first.
sub catch_up {
    my ($self) = @_;
    accept_all($self, $_) for @{ $self->{listen} };
    readable($_) for grep { !$_->{fresh} } values %{ $self->{conn} };
}

# For long runs: each start and end becomes a line of a file instead of a record
# in memory.
sub stream_to {
    my ($self, $path) = @_;
    open $self->{stream}, '>', $path or die "$path: $!\n";
    return EV::timer(0.2, 0.2, sub { $self->{stream}->flush });
}

sub stream_start {
    my ($self, $request) = @_;
    # any start may be one too many here; the limit that nginx sends only tells
    # when it is worth looking
    my $limit = $request->{limit};
    my $look = $limit eq '' || $self->{now}{ $request->{sem} } > $limit;
    # it may be closed itself, but begins before it ends
    local $request->{unwritten} = 1;
    end_closed($self) if $look;
    printf { $self->{stream} } "+ %.6f %s %s %d %s %s %s\n",
        $request->{start}, map { $_ eq '' ? '-' : $_ }
        @$request{qw(nonce sem weight worker node limit)};
    $self->stream_end($request) if $request->{end};
}

sub stream_end {
    my ($self, $request) = @_;
    printf { $self->{stream} } "- %.6f %s %s\n",
        @$request{qw(end nonce how)};
}

###########################################################################
# the counts

sub count_up {
    my ($conn, $request) = @_;
    my $self = $conn->{oracle};
    $request->{start} = clock_gettime(CLOCK_MONOTONIC);
    $request->{how} = 'hanging';
    $self->{count}{started}++;
    my @sems = ('', $request->{sem} eq '' ? () : $request->{sem});
    $self->{now}{$_} += $request->{weight} for @sems;
    return $self->stream_start($request) if $self->{stream};
    push @{ $self->{log} }, $request;
    end_closed($self)
        if grep { $self->{now}{$_} > ($self->{peak}{$_} // 0) } @sems;
    for (@sems) {
        my $now = $self->{now}{$_};
        $self->{peak}{$_} = $now if $now > ($self->{peak}{$_} // 0);
    }
}

# Counts down closed connections before a new peak: the event loop may report a
# request before an older FIN or RST on another connection, or late, when its
# own FIN has arrived. Bytes of a body may stand before that.
sub end_closed {
    my ($self) = @_;
    my $poll = IO::Poll->new;
    my @running = grep { $_->{running} } values %{ $self->{conn} };
    $poll->mask($_->{sock} => POLLRDHUP) for @running;
    $poll->poll(0);
    finish($_) for grep { $poll->events($_->{sock}) } @running;
}

sub count_down {
    my ($conn, $how) = @_;
    my $request = delete $conn->{running} or return;
    my $self = $conn->{oracle};
    $request->{end} = clock_gettime(CLOCK_MONOTONIC);
    $request->{how} = $how;
    $self->{count}{$how}++;
    $self->{now}{''} -= $request->{weight};
    $self->{now}{ $request->{sem} } -= $request->{weight}
        if $request->{sem} ne '';
    $self->stream_end($request)
        if $self->{stream} && !$request->{unwritten};
    leave_slot($conn) if delete $conn->{slots};
}

###########################################################################
# a connection

sub readable {
    my ($conn) = @_;
    my $n = sysread $conn->{sock}, $conn->{in}, 262_144, length $conn->{in};
    if (!defined $n) {
        return if $! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR;
        return finish($conn);
    }
    return finish($conn) if $n == 0;
    if ($conn->{tunnel}) {
        $conn->{out} .= $conn->{in};
        $conn->{in} = '';
        return flush_out($conn);
    }
    next_request($conn) unless $conn->{running};
    read_body($conn) if $conn->{running} && !$conn->{body_read};
}

sub finish {
    my ($conn, $rst) = @_;
    count_down($conn, 'closed');
    setsockopt $conn->{sock}, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0
        if $rst;
    delete @$conn{qw(reader writer timer)};
    close $conn->{sock};
    delete $conn->{oracle}{conn}{$conn};
}

sub next_request {
    my ($conn) = @_;
    my $end = index $conn->{in}, "\r\n\r\n";
    return if $end < 0;
    my $head = substr $conn->{in}, 0, $end + 4, '';
    my ($method, $uri, $version, $fields)
        = $head =~ m{^(\S+) (\S+) HTTP/([\d.]+)\r\n(.*)}s
        or return finish($conn);
    my %header;
    $header{ lc $1 } = $2 while $fields =~ /^([^:\r\n]+):[ \t]*([^\r\n]*)/mg;
    my %arg = $uri =~ /[?&](\w+)=([^&]*)/g;

    # counted nowhere, as if it had not come
    return finish($conn, 1)
        if $conn->{oracle}{refused}{ $header{'x-node'} // '' };
    $conn->{head} = $method eq 'HEAD';
    $conn->{header} = \%header;
    $conn->{arg} = \%arg;
    $conn->{keep} = ($header{connection} // '') !~ /close/i
        && ($version ne '1.0' || ($header{connection} // '') =~ /keep/i);
    $conn->{body_read} = 0;
    $conn->{length} = $header{'content-length'};
    $conn->{running} = {
        nonce => $header{'x-nonce'} // '', uri => $uri, method => $method,
        node => $header{'x-node'} // '', sem => counted_by($conn, \%header),
        worker => $header{'x-worker'} // '', limit => $header{'x-limit'} // '',
        weight => ($header{'x-weight'} // '') eq '' ? 1
            : $header{'x-weight'} + 0,
    };
    count_up($conn, $conn->{running});
}

# X-Sem; one that ends with "@" has the port behind it: counted by server.
sub counted_by {
    my ($conn, $header) = @_;
    my $sem = $header->{'x-sem'} // '';
    return $sem unless $sem =~ /\@$/;
    return $sem . (unpack_sockaddr_in getsockname $conn->{sock})[0];
}

# The response begins when the request body is complete.
sub read_body {
    my ($conn) = @_;
    my $chunked = lc($conn->{header}{'transfer-encoding'} // '') eq 'chunked';
    if ($chunked) {
        while ($conn->{in} =~ /^([0-9a-f]+)[^\r\n]*\r\n/i) {
            my ($size, $all) = (hex $1, length($&) + hex($1) + 2);
            return if length $conn->{in} < $all;
            substr $conn->{in}, 0, $all, '';
            return serve($conn) if $size == 0;
        }
        return;
    }
    my $length = $conn->{length} // 0;
    return if length $conn->{in} < $length;
    substr $conn->{in}, 0, $length, '';
    return serve($conn);
}

###########################################################################
# a response

sub serve {
    my ($conn) = @_;
    my $arg = $conn->{arg};
    $conn->{body_read} = 1;
    return tunnel($conn) if $conn->{header}{upgrade};
    return if $arg->{hang};
    my $time = $conn->{header}{'x-service'};
    $time = defined $arg->{t} ? $arg->{t} / 1000 : $conn->{oracle}{service}
        if !defined $time || $time eq '';
    $time *= slowdown($conn) if $arg->{knee};
    # requests beyond so many at a time fail at once
    if ($arg->{cliff} && $conn->{oracle}{now}{''} > $arg->{cliff}) {
        ($arg->{status}, $time) = (503, 0);
    }
    return answer($conn) if $time <= 0;
    return take_slot($conn, $time) if $arg->{slots};
    work($conn, $time);
}

sub work {
    my ($conn, $time) = @_;
    # timers count from the loop's cached time, which lags
    $conn->{timer} = EV::timer($time + EV::time() - EV::now(), 0,
        sub { answer($conn) });
}

# A backend with so many slots: a request that finds all of them taken waits for
# one, in turn.
sub take_slot {
    my ($conn, $time) = @_;
    my $self = $conn->{oracle};
    if ($self->{busy} >= $conn->{arg}{slots}) {
        push @{ $self->{queue} }, [$conn, $time];
        return;
    }
    $self->{busy}++;
    $conn->{slots} = 1;
    work($conn, $time);
}

# The next one has it, unless its client has left.
sub leave_slot {
    my ($conn) = @_;
    my $self = $conn->{oracle};
    $self->{busy}--;
    while (my $next = shift @{ $self->{queue} }) {
        return take_slot(@$next) if $next->[0]{running};
    }
}

# A backend with a knee: beyond so many requests at a time all of them get
# slower, in proportion, or by a power of it (steep). own: only those of its
# semaphore count.
sub slowdown {
    my ($conn) = @_;
    my ($knee, $steep, $own) = @{ $conn->{arg} }{qw(knee steep own)};
    my $sem = $own ? $conn->{running}{sem} : '';
    my $load = $conn->{oracle}{now}{$sem} / $knee;
    return $load > 1 ? $load ** ($steep || 1) : 1;
}

sub tunnel {
    my ($conn) = @_;
    $conn->{tunnel} = 1;
    $conn->{out} = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: "
        . "$conn->{header}{upgrade}\r\nConnection: upgrade\r\n\r\n";
    flush_out($conn);
}

sub response_head {
    my ($conn, $length) = @_;
    my $status = $conn->{arg}{status} // 200;
    my @fields = ("HTTP/1.1 $status Oracle",
        "X-Nonce: $conn->{running}{nonce}",
        'X-Started: ' . $conn->{oracle}{count}{started},
        $conn->{keep} ? 'Connection: keep-alive' : 'Connection: close');
    push @fields, defined $length ? "Content-Length: $length"
        : 'Transfer-Encoding: chunked';
    unshift @fields, 'HTTP/1.1 103 Early Hints', "Link: </a>\r\n"
        if $conn->{arg}{hints};
    return join("\r\n", @fields) . "\r\n\r\n";
}

sub answer {
    my ($conn) = @_;
    my $arg = $conn->{arg};
    delete $conn->{timer};
    return finish($conn, $arg->{rst}) if $arg->{close} || $arg->{rst};
    return stream($conn, $arg->{stream}) if $arg->{stream};
    my $body = $arg->{size} ? 'x' x $arg->{size}
        : "$conn->{running}{nonce} $conn->{running}{uri}\n";
    my $out = response_head($conn, length $body);
    $out .= $body unless $conn->{head};
    if (defined $arg->{cut}) {
        syswrite $conn->{sock}, substr $out, 0, $arg->{cut};
        return finish($conn);
    }
    $conn->{out} = $out;
    $conn->{last} = 1;
    flush_out($conn);
}

# A chunked response in pieces; end: instead of the last one an RST (rst), what is
# no piece (garbage), or a FIN.
sub stream {
    my ($conn, $pieces) = @_;
    my $every = ($conn->{arg}{every} // 100) / 1000;
    my $piece = 'x' x ($conn->{arg}{size} || 10);
    $conn->{out} .= response_head($conn);
    my $send = sub {
        my $left = --$pieces;
        syswrite $conn->{sock}, "no piece\r\n"
            if $left <= 0 && ($conn->{arg}{end} // '') eq 'garbage';
        return finish($conn, $conn->{arg}{end} eq 'rst')
            if $left <= 0 && $conn->{arg}{end};
        $conn->{out} .= sprintf "%x\r\n%s\r\n", length $piece, $piece;
        $conn->{out} .= "0\r\n\r\n" if $left <= 0;
        $conn->{last} = $left <= 0;
        delete $conn->{timer} if $left <= 0;
        flush_out($conn);
    };
    $conn->{timer} = EV::timer($every, $every, $send);
    $send->();
}

# Counts down before the last byte is written; a small response is one write,
# of a large one the last byte is held back.
sub flush_out {
    my ($conn) = @_;
    my $held_back = $conn->{last} && length $conn->{out} > 65_536 ? 1 : 0;
    count_down($conn, 'answered') if $conn->{last} && !$held_back;
    while (length $conn->{out} > $held_back) {
        my $n = syswrite $conn->{sock}, $conn->{out},
            length($conn->{out}) - $held_back;
        if (!defined $n) {
            return want_write($conn) if $! == EAGAIN || $! == EWOULDBLOCK;
            return finish($conn);
        }
        substr $conn->{out}, 0, $n, '';
    }
    delete $conn->{writer};
    return flush_out($conn) if $held_back;
    answered($conn) if $conn->{last};
}

sub want_write {
    my ($conn) = @_;
    $conn->{writer} //= EV::io($conn->{sock}, EV::WRITE,
        sub { flush_out($conn) });
}

sub answered {
    my ($conn) = @_;
    delete $conn->{last};
    return finish($conn) unless $conn->{keep};
    return unless length $conn->{in};
    next_request($conn);
    read_body($conn) if $conn->{running};
}

###########################################################################
# calls from the test

sub do_peak { $_[0]{peak}{ $_[1] } // 0 }
sub do_now { $_[0]{now}{ $_[1] } // 0 }
sub do_count { $_[0]{count}{ $_[1] } // 0 }
sub do_log { $_[0]{log} }

# Running requests continue, and are the first peak.
sub do_reset {
    my ($self) = @_;
    $self->{count} = {};
    $self->{peak} = { %{ $self->{now} //= {} } };
    $self->{log} = [];
    return 1;
}

# The connections of this node's requests are reset: those that run, and each
# that comes, until it is allowed again.
sub do_refuse {
    my ($self, $node, $on) = @_;
    $self->{refused}{$node} = $on;
    finish($_, 1) for grep { $on && $_->{running}
        && $_->{running}{node} eq $node } values %{ $self->{conn} };
    return 1;
}

sub hanging {
    my ($self) = @_;
    return sort { $a->{running}{start} <=> $b->{running}{start} }
        grep { $_->{running} && $_->{body_read} && !$_->{timer} }
        values %{ $self->{conn} };
}

sub do_release {
    my ($self, $n) = @_;
    catch_up($self);
    my @conn = hanging($self);
    splice @conn, $n if @conn > $n;
    $_->{tunnel} ? finish($_) : answer($_) for @conn;
    return scalar @conn;
}

sub do_release_nonce {
    my ($self, $nonce) = @_;
    catch_up($self);
    my @conn = grep { $_->{running}{nonce} eq $nonce } hanging($self);
    answer($_) for @conn;
    return scalar @conn;
}

1;
