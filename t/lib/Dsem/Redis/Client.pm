package Dsem::Redis::Client;

# One connection of the test to Redis, on its unix socket. A list reply is an
# array reference, an error dies, and messages are read one by one. The tests
# send some hundred thousand commands: a library that looks for a broken
# connection before each of them takes twice as long.
#
# Called by: Dsem::Redis, Dsem::Test (connect).

use strict;
use warnings;

use Carp qw(croak);
use Errno qw(EINTR);
use Socket qw(PF_UNIX SOCK_STREAM pack_sockaddr_un);

use Dsem::Wait qw(wait_for);

sub new {
    my ($class, $unix, $password) = @_;
    socket my $sock, PF_UNIX, SOCK_STREAM, 0 or croak "socket: $!";
    connect $sock, pack_sockaddr_un($unix) or croak "connect to $unix: $!";
    # in: what was read, from "at" on it is not taken apart
    my $self = bless { sock => $sock, in => '', at => 0, messages => [],
        subscribed => 0 }, $class;
    $self->cmd('AUTH', $password) if defined $password;
    return $self;
}

sub cmd {
    my ($self, @words) = @_;
    my $sock = $self->{sock} // croak 'not connected';
    my $out = '*' . @words . "\r\n"
        . join('', map { '$' . length . "\r\n$_\r\n" } @words);
    while (length $out) {
        my $n = syswrite $sock, $out;
        next if !defined $n && $! == EINTR;
        $self->_lost("write to Redis: $!") if !defined $n;
        substr $out, 0, $n, '';
    }
    return $self->_subscribe(@words) if $words[0] =~ /^p?subscribe$/i;
    my $reply = $self->_reply;
    $reply = $self->_reply while $self->{subscribed} && $self->_took($reply);
    croak "[$words[0]] $$reply" if ref $reply eq 'SCALAR';
    return $reply;
}

# One reply for each channel.
sub _subscribe {
    my ($self, undef, @channels) = @_;
    my $left = $self->{subscribed} = @channels;
    while ($left) {
        my $reply = $self->_reply;
        croak $$reply if ref $reply eq 'SCALAR';
        $left-- if !$self->_took($reply);
    }
    return scalar @channels;
}

# Whether this is a message: it is kept.
sub _took {
    my ($self, $reply) = @_;
    return 0 if ref $reply ne 'ARRAY' || ($reply->[0] // '') !~ /^p?message$/;
    push @{ $self->{messages} }, ['message', @$reply[-2, -1]];
    return 1;
}

# The next message: [kind, channel, text].
sub reply {
    my ($self, $timeout) = @_;
    my $messages = $self->{messages};
    wait_for {
        $self->_took($self->_reply)
            while !@$messages && $self->_readable(0.005);
        scalar @$messages;
    } $timeout // 5, 'a message';
    return shift @$messages;
}

###########################################################################

# A text, a number, undef, a list of these; of an error a reference to its text.
sub _reply {
    my ($self) = @_;
    my $line = $self->_line;
    my $type = substr $line, 0, 1, '';
    return $line if $type eq ':' || $type eq '+';
    return \$line if $type eq '-';
    return undef if $line < 0;
    if ($type eq '*') {
        my @list = map { $self->_reply } 1 .. $line;
        # of a transaction
        my ($error) = grep { ref eq 'SCALAR' } @list;
        return $error // \@list;
    }
    croak "Redis replies '$type$line'" if $type ne '$';
    $self->_more while length $self->{in} < $self->{at} + $line + 2;
    my $text = substr $self->{in}, $self->{at}, $line;
    $self->{at} += $line + 2;
    return $text;
}

sub _line {
    my ($self) = @_;
    my $end;
    $self->_more while ($end = index $self->{in}, "\r\n", $self->{at}) < 0;
    my $line = substr $self->{in}, $self->{at}, $end - $self->{at};
    $self->{at} = $end + 2;
    return $line;
}

sub _more {
    my ($self) = @_;
    if ($self->{at}) {
        substr $self->{in}, 0, $self->{at}, '';
        $self->{at} = 0;
    }
    my $n = sysread $self->{sock}, $self->{in}, 65_536, length $self->{in};
    return if $n || !defined $n && $! == EINTR;
    $self->_lost(defined $n ? 'Redis has closed the connection'
        : "reading from Redis: $!");
}

sub _readable {
    my ($self, $seconds) = @_;
    return 1 if length $self->{in} > $self->{at};
    vec(my $bits = '', fileno $self->{sock}, 1) = 1;
    return select($bits, undef, undef, $seconds) > 0;
}

sub _lost {
    my ($self, $why) = @_;
    delete $self->{sock};
    croak $why;
}

1;
