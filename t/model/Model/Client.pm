package Model::Client;

# One connection to Redis in RESP3, on which channel messages arrive as well,
# each before the last reply to what is sent at once with the command that
# published it. A walk therefore sees the same order in every run.
#
# Nothing else writes to this Redis, so that a reply to a read holds until the
# next write, and is not asked for again. Fields of hashes that were read once
# are read together with each script, in the same round trip: most of the time
# of a walk would be round trips, and most of the rest reading replies. So a
# PING follows whatever is asked, with whose reply all is there, and the lines
# of all replies are taken apart at once: no text has a line break, but for
# those of DUMP. What is read with a script is decoded when one asks for it.

use warnings;
use strict;

use Socket;

my %READ = map { $_ => 1 } qw/HGET HMGET HGETALL ZRANGE ZSCORE EXISTS/;

sub new {
    my ($class, $path) = @_;
    socket(my $fd, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
    connect($fd, sockaddr_un($path)) or die "connect $path: $!\n";
    my $self = bless { fd => $fd, in => '', out => '', before => 0,
        pushed => [], wanted => {}, known => {}, fields => {}, raw => {},
        also => [],
        lines => [], error => '' }, $class;
    $self->cmd('HELLO', 3);
    $self->cmd('PSUBSCRIBE', '*:c:*');
    return $self;
}

sub cmd {
    my ($self, @word) = @_;
    my $verb = $word[0];
    if (!$READ{$verb}) {
        @$self{qw/known fields raw/} = ({}, {}, {});
        return $self->script(@word) if $verb eq 'EVALSHA';
        return $verb eq 'DUMP' ? $self->dumped(@word) : $self->ask(\@word);
    }
    return ($self->fields(@word[1, 2]))[0] if $verb eq 'HGET';
    return [ $self->fields(@word[1 .. $#word]) ] if $verb eq 'HMGET';
    my $known = $self->{known};
    my $reply = $known->{"@word"} //= $self->ask(\@word);
    # as it came
    $reply = $known->{"@word"} = $self->decoded($reply)
        if ref $reply eq 'SCALAR';
    return $reply;
}

# What tells the reply to a read that came with a script from another one.
sub text_of {
    my ($self, @word) = @_;
    my $known = $self->{known}{"@word"};
    return ref $known eq 'SCALAR' ? $$known : undef;
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

# The values of fields of a hash.
sub fields {
    my ($self, $key, @fields) = @_;
    my $of = $self->{fields}{$key} //= {};
    if (my $raw = delete $self->{raw}{$key}) {
        @$of{ @{ $raw->[0] } } = map { $_ eq '_' ? undef : substr $_, 1 }
            @{ $raw->[1] };
    }
    my @unread = grep { !exists $of->{$_} } @fields
        or return @$of{@fields};
    my $wanted = $self->{wanted}{$key} //= {};
    @$wanted{@unread} = (1) x @unread;
    delete $self->{look};
    my @wanted = sort keys %$wanted;
    @$of{@wanted} = @{ $self->ask([ 'HMGET', $key, @wanted ]) };
    return @$of{@fields};
}

# What was wanted so far: keys, their fields, and the commands for them.
sub look {
    my ($self) = @_;
    my $wanted = $self->{wanted};
    my @keys = sort keys %$wanted;
    my @fields = map { [ sort keys %{ $wanted->{$_} } ] } @keys;
    return { keys => \@keys, fields => \@fields, text => join '', map {
        command('HMGET', $keys[$_], @{ $fields[$_] })
    } 0 .. $#keys };
}

sub script {
    my ($self, @word) = @_;
    my @also = splice @{ $self->{also} };
    my $look = $self->{look} //= $self->look;
    $self->put(@$_) for \@word, @also;
    $self->{out} .= $look->{text};
    $self->exchange;
    my $reply = $self->value;
    $self->{known}{"@$_"} = $self->undecoded for @also;
    my ($keys, $fields, $raw) = (@$look{qw/keys fields/}, $self->{raw});
    $raw->{ $keys->[$_] } = [ $fields->[$_], $self->undecoded_fields ]
        for 0 .. $#$keys;
    $self->finish(@word[0, 1]);
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
    delete $self->{look};
}

# Replies to these commands, sent at once.
sub ask {
    my ($self, @commands) = @_;
    $self->exchange(@commands);
    my @value = map { $self->value } @commands;
    $self->finish(@{ $commands[0] // [] });
    return wantarray ? @value : $value[0];
}

# Sends them, and waits for the lines of all replies.
sub exchange {
    my ($self, @commands) = @_;
    $self->put(@$_) for @commands, ['PING'];
    $self->flush;
    $self->more while substr($self->{in}, -7) ne "+PONG\r\n";
    # the length of a text is left out, its line begins with "$"
    $self->{in} =~ s/^\$\d+\r\n/\$/mg;
    @{ $self->{lines} } = split /\r\n/, $self->{in};
    $self->{in} = '';
    $self->value while $self->{before} && $self->{before}--;
}

# The last of them is that to PING.
sub finish {
    my ($self, @word) = @_;
    my $error = $self->{error};
    ($self->value // '') eq 'PONG' && !@{ $self->{lines} }
        or die "a reply does not fit: @word\n";
    return if !$error;
    $self->{error} = '';
    die "$error\n";
}

# The reply to DUMP, which has any bytes.
sub dumped {
    my ($self, @word) = @_;
    $self->ask if $self->{before};
    $self->put(@word);
    $self->flush;
    $self->more while $self->{in} !~ s/^\$(\d+)\r\n//;
    my $length = $1;
    $self->more while length $self->{in} < $length + 2;
    return substr substr($self->{in}, 0, $length + 2, ''), 0, -2;
}

sub put {
    my ($self, @word) = @_;
    die "undefined word in @word[0 .. 2]\n" if grep { !defined } @word;
    $self->{out} .= command(@word);
}

sub command {
    return '*' . @_ . "\r\n"
        . join('', map { '$' . length . "\r\n$_\r\n" } @_);
}

sub flush {
    my ($self) = @_;
    my $out = $self->{out};
    $self->{out} = '';
    syswrite($self->{fd}, $out) == length $out or die "write: $!\n";
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

# The next reply; messages before it are noted.
sub value {
    my ($self) = @_;
    my $lines = $self->{lines};
    my $line = shift @$lines;
    my $type = substr $line, 0, 1, '';
    return $line if $type =~ /[\$:+,]/;
    return undef if $type eq '_';
    if ($type eq '-') {
        $self->{error} ||= $line;
        return undef;
    }
    my $count = $type eq '%' ? 2 * $line : $line;
    my $values = grep(/^[*%>-]/, @$lines[0 .. $count - 1])
        ? [ map { $self->value } 1 .. $count ]
        : [ map { $_ eq '_' ? undef : substr $_, 1 }
            splice @$lines, 0, $count ];
    return $values if $type ne '>';
    return undef if $values->[0] ne 'pmessage';
    push @{ $self->{pushed} }, [ @$values[2, 3] ];
    return $self->value;
}

sub messages {
    my ($self) = @_;
    my $lines = $self->{lines};
    while ($lines->[0] eq '>4') {
        my (undef, undef, undef, @message) = splice @$lines, 0, 5;
        push @{ $self->{pushed} }, [ map { substr $_, 1 } @message ];
    }
}

# The lines of the next reply, a hash or a list of texts or pairs, which are
# taken apart when one asks for it.
sub undecoded {
    my ($self) = @_;
    my $lines = $self->{lines};
    $self->messages;
    my ($type, $count) = $lines->[0] =~ /^([*%])(\d+)$/
        or return $self->value;
    $count *= $type eq '%' ? 2 : $count && $lines->[1] eq '*2' ? 3 : 1;
    return \ join "\n", splice @$lines, 0, 1 + $count;
}

# The lines of the values of fields.
sub undecoded_fields {
    my ($self) = @_;
    my $lines = $self->{lines};
    $self->messages;
    $self->value, return [] if $lines->[0] !~ /^\*(\d+)$/;
    shift @$lines;
    return [ splice @$lines, 0, $1 ];
}

sub decoded {
    my ($self, $text) = @_;
    $self->{lines} = [ split /\n/, $$text, -1 ];
    return $self->value;
}

1;
