package Model::Client;

# One connection to Redis in RESP3, on which channel messages arrive as well,
# each before the last reply to what is sent at once with the command that
# published it. A walk therefore sees the same order in every run.
#
# Nothing else writes to this Redis, so that a reply to a read holds until the
# next write, and is not asked for again. Fields of hashes that were read once
# are read together with each script, in the same round trip: most of the time
# of a walk would be round trips.

use warnings;
use strict;

use Socket;

my %READ = map { $_ => 1 } qw/HGET HMGET HGETALL ZRANGE ZSCORE EXISTS/;

sub new {
    my ($class, $path) = @_;
    socket(my $fd, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
    connect($fd, sockaddr_un($path)) or die "connect $path: $!\n";
    my $self = bless { fd => $fd, in => '', out => '', before => 0,
        pushed => [], wanted => {}, known => {}, fields => {}, also => [] }, $class;
    $self->cmd('HELLO', 3);
    $self->cmd('PSUBSCRIBE', '*:c:*');
    return $self;
}

sub cmd {
    my ($self, @word) = @_;
    my $verb = $word[0];
    if (!$READ{$verb}) {
        @$self{qw/known fields/} = ({}, {});
        return $verb eq 'EVALSHA' ? $self->script(@word) : $self->ask(\@word);
    }
    return $self->field(@word[1, 2]) if $verb eq 'HGET';
    return [ map { $self->field($word[1], $_) } @word[2 .. $#word] ]
        if $verb eq 'HMGET';
    return $self->{known}{"@word"} //= $self->ask(\@word);
}

# Reads that are known to follow, in one round trip.
sub read_together {
    my ($self, @commands) = @_;
    my $known = $self->{known};
    @commands = grep { !exists $known->{"@$_"} } @commands or return;
    @$known{ map { "@$_" } @commands } = $self->ask(@commands);
}

# A write of a key that is never read here: it goes with the next command, and
# its reply is not looked at.
sub later {
    my ($self, @word) = @_;
    $self->put(@word);
    $self->{before}++;
}

# The value of a field of a hash.
sub field {
    my ($self, $key, $field) = @_;
    $self->{wanted}{$key}{$field} = 1;
    my $of = $self->{fields}{$key} //= {};
    if (!exists $of->{$field}) {
        my @fields = sort keys %{ $self->{wanted}{$key} };
        @$of{@fields} = @{ $self->ask([ 'HMGET', $key, @fields ]) };
    }
    return $of->{$field};
}

sub script {
    my ($self, @word) = @_;
    my $wanted = $self->{wanted};
    my @keys = sort keys %$wanted;
    my @fields = map { [ sort keys %{ $wanted->{$_} } ] } @keys;
    my @also = splice @{ $self->{also} };
    my ($reply, @values) = $self->ask(\@word, @also,
        map { [ 'HMGET', $keys[$_], @{ $fields[$_] } ] } 0 .. $#keys);
    @{ $self->{known} }{ map { "@$_" } @also } = splice @values, 0, @also;
    @{ $self->{fields}{ $keys[$_] } }{ @{ $fields[$_] } } = @{ $values[$_] }
        for 0 .. $#keys;
    return $reply;
}

# Reads that follow the next script, in the same round trip.
sub also {
    my ($self, @commands) = @_;
    $self->{also} = \@commands;
}

# The fields that are read together with scripts are forgotten: another walk
# reads other ones.
sub forget {
    my ($self) = @_;
    $self->{wanted} = {};
}

# Replies to these commands, sent at once.
sub ask {
    my ($self, @commands) = @_;
    # Redis before 7.2 sends messages before the reply, later versions after it
    my $last = @commands == 1 && !$READ{ $commands[0][0] } && ['PING'];
    $self->put(@$_) for @commands, $last || ();
    my $out = $self->{out};
    $self->{out} = '';
    syswrite($self->{fd}, $out) == length $out or die "write: $!\n";
    $self->value while $self->{before} && $self->{before}--;
    my ($error, @value);
    for (@commands) {
        push @value, eval { $self->value };
        $error ||= $@;
    }
    $self->value if $last;
    die $error if $error;
    return wantarray ? @value : $value[0];
}

sub put {
    my ($self, @word) = @_;
    die "undefined word in @word[0 .. 2]\n" if grep { !defined } @word;
    $self->{out} .= '*' . @word . "\r\n"
        . join('', map { '$' . length($_) . "\r\n$_\r\n" } @word);
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

sub value {
    my ($self) = @_;
    while (1) {
        my $end;
        $self->more while ($end = index $self->{in}, "\r\n") < 0;
        my $line = substr $self->{in}, 1, $end - 1;
        my $type = substr substr($self->{in}, 0, $end + 2, ''), 0, 1;
        if ($type eq '$') {
            $self->more while length $self->{in} < $line + 2;
            return substr substr($self->{in}, 0, $line + 2, ''), 0, -2;
        }
        return $line if $type eq ':' || $type eq '+' || $type eq ',';
        return undef if $type eq '_';
        die "$line\n" if $type eq '-';
        $line *= 2 if $type eq '%';
        my @values = map { $self->value } 1 .. $line;
        return \@values unless $type eq '>';
        push @{ $self->{pushed} }, [ @values[2, 3] ]
            if $values[0] eq 'pmessage';
        return undef if $values[0] ne 'pmessage';
    }
}

1;
