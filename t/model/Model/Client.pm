package Model::Client;

# One connection to Redis in RESP3, on which channel messages arrive as well,
# each before the reply of the PING after the command that published it. A walk
# therefore sees the same order in every run.

use warnings;
use strict;

use Socket;

sub new {
    my ($class, $path) = @_;
    socket(my $fd, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
    connect($fd, sockaddr_un($path)) or die "connect $path: $!\n";
    my $self = bless { fd => $fd, in => '', pushed => [] }, $class;
    $self->cmd('HELLO', 3);
    $self->cmd('PSUBSCRIBE', '*:c:*');
    return $self;
}

sub cmd {
    my ($self, @word) = @_;
    die "undefined word in @word[0 .. 2]\n" if grep { !defined } @word;
    # Redis before 7.2 sends messages before the reply, later versions after it
    my $out = '*' . @word . "\r\n"
        . join('', map { '$' . length($_) . "\r\n$_\r\n" } @word)
        . "PING\r\n";
    syswrite($self->{fd}, $out) == length $out or die "write: $!\n";
    my @value = eval { $self->value };
    my $error = $@;
    $self->value;
    die $error if $error;
    return wantarray ? @value : $value[0];
}

# Messages since the last call: [channel, text] ...
sub pushed {
    my ($self) = @_;
    return splice @{ $self->{pushed} };
}

sub more {
    my ($self) = @_;
    sysread($self->{fd}, $self->{in}, 65536, length $self->{in})
        or die "redis has closed the connection\n";
}

sub line {
    my ($self) = @_;
    my $end;
    $self->more while ($end = index $self->{in}, "\r\n") < 0;
    my $line = substr $self->{in}, 0, $end + 2, '';
    return substr $line, 0, -2;
}

sub value {
    my ($self) = @_;
    while (1) {
        my $line = $self->line;
        my $type = substr $line, 0, 1, '';
        return $line if $type eq ':' || $type eq '+' || $type eq ',';
        return undef if $type eq '_';
        die "$line\n" if $type eq '-';
        if ($type eq '$') {
            $self->more while length $self->{in} < $line + 2;
            return substr substr($self->{in}, 0, $line + 2, ''), 0, -2;
        }
        $line *= 2 if $type eq '%';
        my @values = map { $self->value } 1 .. $line;
        return \@values unless $type eq '>';
        push @{ $self->{pushed} }, [ @values[2, 3] ]
            if $values[0] eq 'pmessage';
        return undef if $values[0] ne 'pmessage';
    }
}

1;
