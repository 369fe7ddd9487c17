package Dsem::ProxyServer;

# The proxy's own process. A connection is a pair of sides. Data read on one
# side passes the faults in force (lose, cut, delay, slice) into the queue of
# the other side, and is written from there when due.
#
# Called by: Dsem::Proxy, in the child process.

use strict;
use warnings;

# select: with epoll a timer is a multiple of a millisecond
BEGIN { $ENV{LIBEV_FLAGS} = 1 }
use EV;
use Errno qw(EAGAIN EWOULDBLOCK);
use IO::Socket::INET;
use IO::Socket::UNIX;
use Socket qw(SOL_SOCKET SO_LINGER IPPROTO_TCP TCP_NODELAY);

use Dsem::Control;

my %OTHER = (c2s => 's2c', s2c => 'c2s');

sub run {
    my ($control, $port, $target) = @_;
    my $self = bless {
        port => $port, target => $target, pairs => {}, accepted => 0,
        swallowed => 0, slice => 0, pause => 0, frozen => {},
        delay => { c2s => 0, s2c => 0 }, bytes => { c2s => 0, s2c => 0 },
        pieces => { c2s => 0, s2c => 0 },
    };
    $self->do_refuse(0);
    my $watcher = Dsem::Control::serve($control, $self);
    EV::run();
}

sub accept_one {
    my ($self) = @_;
    my $client = $self->{listen}->accept or return;
    $self->{accepted}++;
    my $server = dial($self->{target});
    return unless $server;
    my $pair = { proxy => $self };
    $self->{pairs}{$pair} = $pair;
    # a side is named after the direction of the data read from it
    for ([c2s => $client], [s2c => $server]) {
        my ($dir, $sock) = @$_;
        $sock->blocking(0);
        setsockopt $sock, IPPROTO_TCP, TCP_NODELAY, 1;
        my $side = $pair->{$dir} = {
            dir => $dir, sock => $sock, pair => $pair, queue => [],
            frames => '',
        };
        watch($self, $side);
    }
}

sub dial {
    my ($target) = @_;
    return IO::Socket::UNIX->new(Peer => $1) if $target =~ /^unix:(.*)/;
    return IO::Socket::INET->new(PeerAddr => $target, Timeout => 1);
}

sub watch {
    my ($self, $side) = @_;
    return delete $side->{reader}
        if $side->{eof} || $self->{frozen}{ $side->{dir} } || $side->{held};
    $side->{reader} //= EV::io($side->{sock}, EV::READ,
        sub { readable($self, $side) });
}

sub readable {
    my ($self, $side) = @_;
    my $pair = $side->{pair};
    my $n = sysread $side->{sock}, my $bytes, 65_536;
    if (!defined $n) {
        return if $! == EAGAIN || $! == EWOULDBLOCK;
        return end_pair($pair, 1);
    }
    if ($self->{hold} && $side->{dir} eq 's2c' && $bytes =~ $self->{hold}) {
        $side->{held} = $bytes;
        return watch($self, $side);
    }
    $side->{eof} = 1 if $n == 0;
    $pair->{subscribed} = 1 if $bytes =~ /^SUBSCRIBE\r$/mi;
    watch($self, $side);
    $bytes = lose($self, $side, $bytes) if $n && $self->{swallow};
    pass($self, $side, $bytes);
}

# Queues data for the other side, with the time when it is due.
sub pass {
    my ($self, $side, $bytes) = @_;
    my $dir = $side->{dir};
    my $other = $side->{pair}{ $OTHER{$dir} };
    my $due = EV::time() + $self->{delay}{$dir};
    $bytes =~ s/$self->{from}/$self->{to}/g if $self->{from} && $dir eq 's2c';
    my $size = $self->{slice} || length $bytes;
    while (length $bytes) {
        push @{ $other->{queue} }, [$due, substr $bytes, 0, $size, ''];
    }
    push @{ $other->{queue} }, [$due, undef] if $side->{eof};
    write_queue($self, $other);
}

sub write_queue {
    my ($self, $side) = @_;
    my $queue = $side->{queue};
    delete @$side{qw(timer writer)};
    while (@$queue && !$side->{pair}{ended}) {
        my ($due, $bytes) = @{ $queue->[0] };
        my $wait = $due - EV::time();
        if ($wait > 0) {
            $side->{timer} = EV::timer($wait, 0,
                sub { write_queue($self, $side) });
            return;
        }
        return end_side($side) unless defined $bytes;
        return unless write_piece($self, $side, $bytes);
        # one piece per turn of the loop, so that each is a read of its own
        if ($self->{slice} && @$queue) {
            $side->{timer} = EV::timer($self->{pause}, 0,
                sub { write_queue($self, $side) });
            return;
        }
    }
}

sub write_piece {
    my ($self, $side, $bytes) = @_;
    my $dir = $OTHER{ $side->{dir} };
    my $cut = $self->{cut_after};
    $bytes = substr $bytes, 0, $cut->{left}
        if $cut && $cut->{dir} eq $dir && $cut->{left} < length $bytes;
    my $n = length $bytes ? syswrite $side->{sock}, $bytes : 0;
    if (!defined $n) {
        end_pair($side->{pair}, 1), return 0
            if $! != EAGAIN && $! != EWOULDBLOCK;
        $side->{writer} = EV::io($side->{sock}, EV::WRITE,
            sub { write_queue($self, $side) });
        return 0;
    }
    $self->{bytes}{$dir} += $n;
    $self->{pieces}{$dir}++;
    if ($cut && $cut->{dir} eq $dir && ($cut->{left} -= $n) <= 0) {
        delete $self->{cut_after};
        end_pair($side->{pair}, 1);
        return 0;
    }
    substr $side->{queue}[0][1], 0, $n, '';
    shift @{ $side->{queue} } unless length $side->{queue}[0][1];
    return 1;
}

# Passes the FIN on; the other direction may still have data.
sub end_side {
    my ($side) = @_;
    my $pair = $side->{pair};
    shutdown $side->{sock}, 1;
    $side->{ended} = 1;
    end_pair($pair, 0) if $pair->{c2s}{ended} && $pair->{s2c}{ended};
}

sub end_pair {
    my ($pair, $rst) = @_;
    return if $pair->{ended}++;
    for my $side (@$pair{qw(c2s s2c)}) {
        delete @$side{qw(reader writer timer)};
        setsockopt $side->{sock}, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0
            if $rst;
        close $side->{sock};
        delete $side->{pair};
    }
    delete $pair->{proxy}{pairs}{$pair};
}

###########################################################################
# frames

# Returns the bytes without the frames to lose; an incomplete frame is kept
# until the rest arrives.
sub lose {
    my ($self, $side, $bytes) = @_;
    my $what = $self->{swallow};
    return $bytes if $side->{dir} ne ($what->{dir} // 's2c');
    my $out = '';
    $side->{frames} .= $bytes;
    while (my $length = frame_length(\$side->{frames}, 0)) {
        my $frame = substr $side->{frames}, 0, $length, '';
        $out .= $frame unless is_lost($self, $what, $frame);
    }
    return $out;
}

sub is_lost {
    my ($self, $what, $frame) = @_;
    return 0 if $frame !~ /$what->{match}/;
    return 0 if ++$what->{seen} % ($what->{every} // 1);
    return 0 if defined $what->{count} && $what->{count}-- <= 0;
    $self->{swallowed}++;
    return 1;
}

# End of the frame that begins at $at; 0 while it is incomplete.
sub frame_length {
    my ($buffer, $at) = @_;
    pos($$buffer) = $at;
    $$buffer =~ /\G([^\r\n]?)([^\r\n]*)\r\n/g or return 0;
    my ($type, $n) = ($1, $2);
    my $end = pos $$buffer;
    if ($type eq '$' && $n >= 0) {
        $end += $n + 2;
    } elsif ($type eq '*') {
        for (1 .. $n) {
            $end = frame_length($buffer, $end) or return 0;
        }
    }
    return $end <= length $$buffer ? $end : 0;
}

###########################################################################
# calls from the test

sub do_accepted { $_[0]{accepted} }
sub do_open { scalar keys %{ $_[0]{pairs} } }
sub do_bytes { $_[0]{bytes} }
sub do_pieces { $_[0]{pieces} }
sub do_swallowed { $_[0]{swallowed} }
sub do_retarget { $_[0]{target} = $_[1] }
sub do_slice {
    my ($self, $bytes, $pause) = @_;
    @$self{qw(slice pause)} = ($bytes, $pause || 0.0001);
    return 1;
}
sub do_rewrite { @{ $_[0] }{qw(from to)} = @_[1, 2]; return 1 }

sub directions {
    my ($dir) = @_;
    return $dir eq 'both' ? qw(c2s s2c) : $dir;
}

sub sides {
    my ($self) = @_;
    return map { @$_{qw(c2s s2c)} } values %{ $self->{pairs} };
}

sub do_cut {
    my ($self, $rst) = @_;
    my @pairs = values %{ $self->{pairs} };
    end_pair($_, $rst) for @pairs;
    return scalar @pairs;
}

sub do_swap {
    my ($self) = @_;
    for my $pair (values %{ $self->{pairs} }) {
        end_pair($pair, 0), next if $pair->{subscribed};
        my $side = $pair->{s2c};
        delete @$side{qw(reader writer timer)};
        $side->{queue} = [];
        $side->{sock} = dial($self->{target}) or die "dial: $!\n";
        $side->{sock}->blocking(0);
        watch($self, $side);
    }
    return 1;
}

sub do_freeze {
    my ($self, $dir) = @_;
    $self->{frozen}{$_} = 1 for directions($dir);
    watch($self, $_) for sides($self);
    return 1;
}

# Those whose data matches.
sub do_hold {
    my ($self, $match) = @_;
    $self->{hold} = qr/$match/;
    return 1;
}

sub do_thaw {
    my ($self, $dir) = @_;
    delete $self->{frozen}{$_} for directions($dir);
    delete $self->{hold};
    pass($self, $_, delete $_->{held}) for grep { $_->{held} } sides($self);
    watch($self, $_) for sides($self);
    return 1;
}

sub do_delay {
    my ($self, $seconds, $dir) = @_;
    $self->{delay}{$_} = $seconds for directions($dir);
    return 1;
}

# On every open connection, as if its peer had sent it.
sub do_inject {
    my ($self, $bytes, $dir) = @_;
    pass($self, $_, $bytes) for grep { $_->{dir} eq $dir } sides($self);
    return 1;
}

sub do_swallow {
    my ($self, %what) = @_;
    # incomplete frames are passed on
    for my $side (sides($self)) {
        pass($self, $side, delete $side->{frames} // '') unless %what;
        $side->{frames} = '' unless %what;
    }
    $self->{swallow} = %what ? \%what : undef;
    return 1;
}

sub do_cut_after {
    my ($self, $bytes, $dir) = @_;
    $self->{cut_after} = { left => $bytes, dir => $dir };
    return 1;
}

sub do_refuse {
    my ($self, $refuse) = @_;
    delete $self->{accepting};
    close delete $self->{listen} if $self->{listen};
    return 1 if $refuse;
    $self->{listen} = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1', LocalPort => $self->{port},
        Proto => 'tcp', Listen => 512, ReuseAddr => 1)
        or die "listen on $self->{port}: $!\n";
    $self->{listen}->blocking(0);
    $self->{accepting} = EV::io($self->{listen}, EV::READ,
        sub { accept_one($self) });
    return 1;
}

1;
