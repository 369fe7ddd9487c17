package Soak::Clients;

# The clients, in a process of their own. Each has one request at a time and a
# pause between two; on a connection of HTTP/2 several share it. Every request
# has a nonce, and one line in the log when it has ended:
#
#   nonce kind node sem weight start end status reused echo key
#
# status: a code, or a word: aborted (by the client, on purpose), connect, reset,
# empty, cut (failures of the connection), goaway, timeout. echo: 0 if a response
# was that of another request. key: of "fair", "-" if there is none.
#
# Called by: Soak::Fleet, in the child process.

use strict;
use warnings;

# select: with epoll a timer is a multiple of a millisecond
BEGIN { $ENV{LIBEV_FLAGS} = 1 }
use EV;
use Errno qw(EAGAIN EWOULDBLOCK);
use IO::Handle;
use Socket qw(:DEFAULT SO_LINGER SO_RCVBUF MSG_PEEK MSG_DONTWAIT);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use Dsem::Control;
use Dsem::LoadGenerator;

use Soak::Http2;

sub now () { clock_gettime(CLOCK_MONOTONIC) }

# s: a request takes no longer than queue, service and frozen processes
use constant TIMEOUT => 40;

# The kinds by their number, so that every semaphore has all of them.
use constant KINDS => qw(keep h2 keep close keep h2 abort keep close slow);

# of a request on "fifty": share of those that outlast the lease
use constant LONG => 0.002;

# load => [{ sem location clients (number) service pause (ms) key knee }, ...],
# nodes => [[port, port of HTTP/2], ...], log => path, seed => number
sub run {
    my ($control, %opt) = @_;
    srand $opt{seed};
    my $self = bless { %opt, n => 0, flying => {}, waiting => [], h2 => {} };
    open $self->{out}, '>', $opt{log} or die "$opt{log}: $!\n";
    my @watchers = (Dsem::Control::serve($control, $self),
        EV::timer(0.2, 0.2, sub { $self->expire; $self->{out}->flush }));
    my ($id, %i) = (0);
    for my $load (@{ $opt{load} }) {
        for (1 .. $load->{clients}) {
            my $i = $i{ $load->{sem} }++;
            my $client = { %$load, id => ++$id, kind => (KINDS)[ $i % KINDS ],
                pause => $load->{pause} / 1000,
                node => $id % @{ $opt{nodes} } };
            $self->later($client, rand 0.5);
        }
    }
    EV::run();
}

sub later {
    my ($self, $client, $after) = @_;
    $client->{timer} = EV::timer($after, 0, sub {
        delete $client->{timer};
        return push @{ $self->{waiting} }, $client if $self->{paused};
        $self->begin($client);
    });
}

sub expire {
    my ($self) = @_;
    my $oldest = now - TIMEOUT;
    $self->finish($_, 'timeout')
        for grep { $_->{start} < $oldest } values %{ $self->{flying} };
}

###########################################################################
# a request

sub begin {
    my ($self, $client) = @_;
    my $kind = $client->{kind};
    $client->{node} = int rand @{ $self->{nodes} }
        if $kind eq 'close' || rand() < 0.02;
    my $r = {
        client => $client, kind => $kind, node => $client->{node},
        sem => $client->{sem}, weight => 1, start => now, in => '',
        nonce => "$client->{id}-" . ++$self->{n}, echo => 1,
        key => $self->key($client),
    };
    my $t = $client->{service} * (0.5 + rand);
    if ($client->{sem} eq 'fifty') {
        $r->{weight} = 1 + int rand 3 if rand() < 0.2;
        $t = 1000 + rand 3500 if rand() < LONG;
    }
    $r->{path} = sprintf '/%s?t=%.1f&w=%d', $client->{location}, $t,
        $r->{weight};
    $r->{path} .= "&k=$r->{key}" if $r->{key} ne '-';
    $r->{path} .= "&knee=$client->{knee}&own=1" if $client->{knee};
    $r->{path} .= '&size=120000' if $kind eq 'slow';
    $self->{flying}{ $r->{nonce} } = $r;
    $r->{abort} = EV::timer(rand 0.15, 0, sub { $self->abort($r) })
        if $kind eq 'abort' || $kind eq 'h2' && rand() < 0.05;
    return Soak::Http2::start($self, $r) if $kind eq 'h2';
    $self->start_http1($r);
}

# A key of its own for each request, short or long, while keys are random.
sub key {
    my ($self, $client) = @_;
    my $key = $client->{key};
    return $key if !$self->{random_keys} || $key eq '-' || $key =~ /^within/;
    return sprintf 'random%d%s', $self->{n}, rand() < 0.1
        ? '%' x rand 300 : '';
}

sub start_http1 {
    my ($self, $r) = @_;
    my ($client, $kind) = @$r{qw(client kind)};
    my $port = $self->{nodes}[ $r->{node} ][0];
    my $kept = delete $client->{idle};
    my $sock = $kept && $kept->{node} == $r->{node} && is_open($kept->{sock})
        ? $kept->{sock} : undef;
    $r->{reused} = defined $sock;
    $sock //= open_socket($port, $kind eq 'slow' && 4096);
    return $self->finish($r, 'connect') unless $sock;
    $r->{sock} = $sock;
    my $body = $kind eq 'slow' && rand() < 0.5 ? 30 : 0;
    $r->{out} = ($body ? 'POST' : 'GET') . " $r->{path} HTTP/1.1\r\n"
        . "Host: 127.0.0.1:$port\r\nX-Nonce: $r->{nonce}\r\n"
        . ($body ? "Content-Length: $body\r\n" : '')
        . ($kind eq 'keep' ? '' : "Connection: close\r\n") . "\r\n";
    $r->{body} = [ ('x' x 10) x ($body / 10) ];
    $r->{reader} = EV::io($sock, EV::READ, sub { $self->readable($r) });
    $self->write_out($r);
}

# nginx may have closed a connection in a long pause.
sub is_open {
    my ($sock) = @_;
    return !defined recv($sock, my $byte, 1, MSG_PEEK | MSG_DONTWAIT)
        && ($! == EAGAIN || $! == EWOULDBLOCK);
}

sub open_socket {
    my ($port, $buffer) = @_;
    my $address = pack_sockaddr_in($port, INADDR_LOOPBACK);
    my $sock = Dsem::LoadGenerator::open_socket($address) or return;
    setsockopt $sock, SOL_SOCKET, SO_RCVBUF, $buffer if $buffer;
    return $sock;
}

sub write_out {
    my ($self, $r) = @_;
    my $n = syswrite $r->{sock}, $r->{out};
    if (defined $n) {
        substr $r->{out}, 0, $n, '';
        return $self->wrote($r) unless length $r->{out};
    } elsif ($! != EAGAIN && $! != EWOULDBLOCK && !$!{ENOTCONN}) {
        return $self->finish($r, $!{ECONNREFUSED} ? 'connect' : 'reset');
    }
    $r->{writer} //= EV::io($r->{sock}, EV::WRITE,
        sub { $self->write_out($r) });
}

# A slow body comes piece by piece.
sub wrote {
    my ($self, $r) = @_;
    delete $r->{writer};
    my $piece = shift @{ $r->{body} } // return;
    $r->{sender} = EV::timer(0.05, 0, sub {
        $r->{out} = $piece;
        $self->write_out($r);
    });
}

sub readable {
    my ($self, $r) = @_;
    my $slow = $r->{kind} eq 'slow';
    my $n = sysread $r->{sock}, $r->{in}, $slow ? 8192 : 65_536,
        length $r->{in};
    if (!defined $n) {
        return if $! == EAGAIN || $! == EWOULDBLOCK;
        return $self->finish($r, $!{ECONNREFUSED} ? 'connect' : 'reset');
    }
    return $self->finish($r, length $r->{in} || $r->{status}
        ? 'cut' : 'empty') if $n == 0;
    read_head($r) or return unless $r->{status};
    return $self->finish($r, $r->{status})
        if length $r->{in} >= $r->{length};
    $self->rest($r) if $slow;
}

# A slow reader.
sub rest {
    my ($self, $r) = @_;
    $r->{reader}->stop;
    $r->{resume} = EV::timer(0.01, 0, sub { $r->{reader}->start });
}

sub read_head {
    my ($r) = @_;
    my $end = index $r->{in}, "\r\n\r\n";
    return 0 if $end < 0;
    my $head = substr $r->{in}, 0, $end + 4, '';
    ($r->{status}) = $head =~ /^HTTP\/1\.1 (\d{3})/ or return 0;
    ($r->{length}) = $head =~ /^Content-Length: (\d+)/mi;
    $r->{length} //= 0;
    my ($echo) = $head =~ /^X-Nonce: ([^\r]*)/mi;
    $r->{echo} = ($echo // '') eq $r->{nonce} ? 1 : 0
        if defined $echo || $r->{status} == 200;
    $r->{keep} = $head !~ /^Connection: close/mi;
    return 1;
}

sub abort {
    my ($self, $r) = @_;
    $r->{h2}->drop($r) if $r->{h2};
    $self->finish($r, 'aborted');
}

# Every request ends here, once.
sub finish {
    my ($self, $r, $status) = @_;
    delete $self->{flying}{ $r->{nonce} } or return;
    my ($sock, $client) = @$r{qw(sock client)};
    delete @$r{qw(sock reader writer abort sender resume)};
    if ($sock && $r->{keep} && $status =~ /^\d/ && $r->{kind} eq 'keep') {
        $client->{idle} = { sock => $sock, node => $r->{node} };
    } elsif ($sock && $status =~ /aborted|timeout/ && rand() < 0.5) {
        setsockopt $sock, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    }
    printf { $self->{out} } "%s %s n%d %s %d %.6f %.6f %s %d %d %s\n",
        $r->{nonce}, $r->{kind}, $r->{node} + 1, @$r{qw(sem weight start)},
        now, $status, $r->{reused} ? 1 : 0, @$r{qw(echo key)};
    # a node that is not there is not asked at once
    my $pause = $client->{pause} * (0.5 + rand) + ($status eq 'connect' ? 0.1
        : 0);
    # many random keys in a short time
    $pause /= 3 if $r->{key} =~ /^random/;
    $self->later($client, $pause);
}

###########################################################################
# calls from the driver

sub do_pause {
    my ($self, $paused) = @_;
    $self->{paused} = $paused;
    return 1 if $paused;
    my @waiting = splice @{ $self->{waiting} };
    $self->later($_, rand 0.2) for @waiting;
    return scalar @waiting;
}

sub do_random_keys { $_[0]{random_keys} = $_[1]; 1 }
sub do_flying { scalar keys %{ $_[0]{flying} } }
sub do_begun { $_[0]{n} }
sub do_flush { $_[0]{out}->flush; 1 }

1;
