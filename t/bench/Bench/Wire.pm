package Bench::Wire;

# Pipelines of thousands of commands to Redis, so that Redis never waits for
# this process.
#
# Called by: Bench::World.

use strict;
use warnings;

use Carp qw(croak);
use IO::Socket::UNIX;

use constant AT_ONCE => 500;

sub new {
    my ($class, $path, $db) = @_;
    my $sock = IO::Socket::UNIX->new(Peer => $path) // croak "$path: $!";
    my $self = bless { sock => $sock }, $class;
    $self->send(command('SELECT', $db));
    return $self;
}

# One command in RESP.
sub command {
    return '*' . @_ . "\r\n"
        . join '', map { '$' . length($_) . "\r\n$_\r\n" } @_;
}

# Sends commands (in RESP, by command()), and waits until all are executed.
sub send {
    my ($self, @commands) = @_;
    while (my @some = splice @commands, 0, AT_ONCE) {
        $self->exchange(join '', @some, command('PING'));
    }
}

# Writes while it reads: Redis stops reading while its replies are not read.
sub exchange {
    my ($self, $out) = @_;
    my $sock = $self->{sock};
    my $in = '';
    while ($in !~ /\+PONG\r\n\z/) {
        vec(my $read = '', fileno $sock, 1) = 1;
        my $write = length $out ? $read : undef;
        select $read, $write, undef, undef;
        if ($write && vec $write, fileno $sock, 1) {
            $sock->blocking(0);
            my $n = syswrite $sock, $out;
            substr $out, 0, $n // 0, '';
            $sock->blocking(1);
        }
        next unless vec $read, fileno $sock, 1;
        sysread $sock, $in, 1 << 20, length $in or croak 'Redis is gone';
    }
    # an error, or a reply of a script whose status is not ok
    croak "Redis replied: $1" if $in =~ /^-([^\r]*)/m;
    croak "unexpected reply: $&"
        if $in =~ /^\$\d+\r\n[\w.-]+:\d+:\w+\r\n:\d+\r\n:\d+\r\n:[1-9]\d*/m;
}

1;
