package Soak::Http2;

# A connection of HTTP/2 of several clients to one node, with events: the bytes
# of Dsem::Http2 are sent and received without blocking. When nginx ends the
# connection, the requests on it end, and the next one opens another. It is
# closed at the end of its life: nginx 1.22 does not tell one to go away that was
# accepted, and not read yet, when its worker began to drain.
#
# Called by: Soak::Clients.

use strict;
use warnings;

use EV;
use Errno qw(EAGAIN EWOULDBLOCK);

use Dsem::Http2;
use parent -norequire, 'Dsem::Http2';

# requests at a time on one connection, and in its life
use constant { STREAMS => 4, LIFE => 300 };

my $GOAWAY = 7;

sub start {
    my ($clients, $r) = @_;
    my $open = $clients->{h2}{ $r->{node} } //= [];
    my ($h2) = grep { !$_->{over} && keys %{ $_->{stream} } < STREAMS
        && $_->{n} < LIFE } @$open;
    if (!$h2) {
        $h2 = connect_to($clients, $r->{node});
        return $clients->finish($r, 'connect') unless $h2;
        push @$open, $h2;
    }
    $r->{reused} = $h2->{n}++ > 0;
    $r->{h2} = $h2;
    my $stream = $r->{stream} = $h2->get($r->{path},
        'x-nonce' => $r->{nonce});
    $h2->{stream}{$stream} = $r;
    $h2->write_out;
}

sub connect_to {
    my ($clients, $node) = @_;
    my $port = $clients->{nodes}[$node][1];
    my $sock = Soak::Clients::open_socket($port) or return;
    my $raw = bless { out => '', in => '' }, 'Soak::Http2::Bytes';
    my $self = Soak::Http2->new($raw);
    @$self{qw(clients node sock n stream)} = ($clients, $node, $sock, 0, {});
    $self->{reader} = EV::io($sock, EV::READ, sub { $self->readable });
    return $self;
}

sub write_out {
    my ($self) = @_;
    my $raw = $self->{raw};
    return if $self->{writer} || !length $raw->{out} || !$self->{sock};
    my $n = syswrite $self->{sock}, $raw->{out};
    if (defined $n) {
        substr $raw->{out}, 0, $n, '';
    } elsif ($! != EAGAIN && $! != EWOULDBLOCK && !$!{ENOTCONN}) {
        return $self->over($!{ECONNREFUSED} ? 'connect' : 'reset');
    }
    $self->{writer} = EV::io($self->{sock}, EV::WRITE, sub {
        delete $self->{writer};
        $self->write_out;
    }) if length $raw->{out};
}

sub readable {
    my ($self) = @_;
    my $raw = $self->{raw};
    my $n = sysread $self->{sock}, $raw->{in}, 65_536, length $raw->{in};
    if (!defined $n) {
        return if $! == EAGAIN || $! == EWOULDBLOCK;
        return $self->over($!{ECONNREFUSED} ? 'connect' : 'reset');
    }
    $self->read;
    $self->write_out;
    $self->ended_streams;
    return $self->over($self->{over} ? 'goaway' : 'empty') if $n == 0;
    $self->over('goaway') if ($self->{over} || $self->{n} >= LIFE)
        && !%{ $self->{stream} };
}

sub take {
    my ($self, $type, @frame) = @_;
    $self->{over} = 1 if $type == $GOAWAY;
    return $self->SUPER::take($type, @frame);
}

sub ended_streams {
    my ($self) = @_;
    for my $stream (grep { $self->{ended}{$_} } keys %{ $self->{stream} }) {
        my $r = $self->{stream}{$stream};
        my $whole = $self->{ended}{$stream} eq 'whole';
        my $status = $whole ? $self->{status}{$stream} // 'cut' : 'reset';
        $r->{echo} = ($self->{body}{$stream} // '') =~ /^\Q$r->{nonce}\E /
            ? 1 : 0 if $status eq '200';
        $self->forget($r);
        $self->{clients}->finish($r, $status);
    }
}

sub forget {
    my ($self, $r) = @_;
    my $stream = $r->{stream};
    delete $self->{$_}{$stream} for qw(stream ended status body window);
    delete $r->{h2};
}

# The client aborts its request, and no other one.
sub drop {
    my ($self, $r) = @_;
    $self->rst($r->{stream});
    $self->forget($r);
    $self->write_out;
}

# The connection has ended, and all requests on it.
sub over {
    my ($self, $status) = @_;
    my $clients = $self->{clients};
    my $open = $clients->{h2}{ $self->{node} };
    @$open = grep { $_ != $self } @$open;
    $self->{over} = 1;
    delete @$self{qw(reader writer)};
    close delete $self->{sock} if $self->{sock};
    for my $r (values %{ $self->{stream} }) {
        $self->forget($r);
        $clients->finish($r, $status);
    }
}

package Soak::Http2::Bytes;

# What Dsem::Http2 sends to and reads from.

sub send { $_[0]{out} .= $_[1]; return $_[0] }

sub read {
    my ($self) = @_;
    my $bytes = $self->{in};
    $self->{in} = '';
    return $bytes;
}

1;
