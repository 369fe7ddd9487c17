package Bench::Wire;

# A connection to Redis: pipelines of thousands of commands, so that Redis never
# waits for this process, and single commands whose reply is needed.
#
# Called by: Bench::World, Bench::Edition (command).

use strict;
use warnings;

use Carp qw(croak);
use IO::Socket::UNIX;

use constant AT_ONCE => 500;

sub new {
    my ($class, $path, $db) = @_;
    my $sock = IO::Socket::UNIX->new(Peer => $path) // croak "$path: $!";
    my $self = bless { sock => $sock, in => '' }, $class;
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
        if $in =~ /^\$\d+\r\n[\w.-]+:\d+:\w+\r\n
            (?:(?::|\$\d+\r\n)\d+\r\n){2}:[1-9]\d*/mx;
}

# Sends one command (in RESP), returns its reply; dies of an error. The status
# of a script, the fourth element, must be ok.
sub call {
    my ($self, $command) = @_;
    my $sock = $self->{sock};
    while (length $command) {
        my $n = syswrite $sock, $command or croak "Redis is gone: $!";
        substr $command, 0, $n, '';
    }
    my $reply = $self->reply;
    croak "unexpected reply: @$reply" if ref $reply && $reply->[3];
    return $reply;
}

sub reply {
    my ($self) = @_;
    my ($kind, $text) = $self->line =~ /^(.)(.*)/s;
    croak "Redis replied: $text" if $kind eq '-';
    return [ map { $self->reply } 1 .. $text ] if $kind eq '*';
    return $text if $kind ne '$';
    return if $text < 0;
    return substr $self->bytes($text + 2), 0, $text;
}

sub line {
    my ($self) = @_;
    my $end;
    $self->more while ($end = index $self->{in}, "\r\n") < 0;
    return substr $self->bytes($end + 2), 0, $end;
}

sub bytes {
    my ($self, $n) = @_;
    $self->more while length $self->{in} < $n;
    return substr $self->{in}, 0, $n, '';
}

sub more {
    my ($self) = @_;
    sysread $self->{sock}, $self->{in}, 1 << 16, length $self->{in}
        or croak 'Redis is gone';
}

1;
