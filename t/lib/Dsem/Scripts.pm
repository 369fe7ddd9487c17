package Dsem::Scripts;

# The Lua scripts, called by name with named arguments, as by a worker.
#
#   my $scripts = Dsem::Scripts->new;               # or of a Dsem::Test
#   my $one = $scripts->session('one')->enter;      # hello, declared
#   $one->ask('api', 7, limit => 1);                # 'granted', 'queued', ...
#   my $reply = $one->sync('api', release => 1, check => [[8, 1]]);
#
# Dies unless the reply begins with session, epoch and number. Imports what
# Dsem::Test does.
#
# The wall clock of the scripts stands still, at wall (ms): only the test moves
# the clock of the shard, with advance and pass. new($t, clock => 'redis'): it
# is that of Redis. lease => ms: of the sessions; redis: one that is there.
#
# Shard: run($script, \@keys, @argv), all_keys, state (Dsem::State), t, redis,
#   queue($name), meta($field), advance($ms), order($name, $limit, $paused) of
#   this state, pass($ms, @sessions): advances the clock, with beats,
#   dump: all keys and values, to show that nothing was written;
#   calls($code): commands that scripts call meanwhile (name => number, and
#   all: their sum).
#   done ends the test before the end of the file.
# Session: hello, configured($id, {name => limit}), state_limits, configure,
#   declare, declared, enter, beat, bye, sync, ask, order, adjust, inspect, names;
#   most return the reply as a hash; status is a word, and so are verdicts. sync_all($name, $most, ...):
#   syncs again while there is more, at most so many times in all; returns the
#   last reply, with tickets granted by all and the number of syncs.

use warnings;
use strict;

use Dsem::State;
use Dsem::Test ();

our @STATUS = qw/ok resync stale gone broken layout unlisted mixed/;
our @VERDICT = qw/refused granted queued recovering/;

sub import { goto &Dsem::Test::import }

sub new {
    my ($class, $t, %arg) = @_;
    $t //= Dsem::Test->new;
    return bless {
        redis => $arg{redis} // $t->redis, t => $t, sha => {}, sessions => 0,
        lease => 5000, wall => time * 1000, clock => 'still', %arg,
    }, $class;
}

sub redis { $_[0]{redis} }
sub t { $_[0]{t} }
sub lease { $_[0]{lease} }
sub wall { $_[0]{wall} }
sub state { $_[0]{state} //= Dsem::State->new($_[0]{redis}) }

# KEYS of a script; @names: semaphores, for scripts that need them.
sub keys_of {
    my ($self, $script, @names) = @_;
    return $self->state->keys_of($script, @names);
}

# Runs a script with the KEYS and ARGV given; returns the raw reply.
sub run {
    my ($self, $script, $keys, @argv) = @_;
    $self->{sha}{$script} //= $self->{redis}->cmd('SCRIPT', 'LOAD',
        $self->source($script));
    return $self->{redis}->cmd('EVALSHA', $self->{sha}{$script},
        scalar @$keys, @$keys, @argv);
}

sub source {
    my ($self, $script) = @_;
    my $text = $self->{t}->script($script);
    my $time = sprintf '{ %d, 0 }', $self->{wall} / 1000;
    $text =~ s/redis\.call\('TIME'\)/$time/g if $self->{clock} eq 'still';
    return $text;
}

sub session {
    my ($self, $node) = @_;
    my $name = sprintf '%s:0:%016x', $node, ++$self->{sessions};
    return bless {
        scripts => $self, name => $name, epoch => 0, gen => 0, number => 0,
        told => 0, term => 0, lease => $self->{lease}, seal_first => $self->{sessions},
    }, 'Dsem::Scripts::Session';
}

# A field of the shard, or sets it.
sub meta {
    my ($self, @arg) = @_;
    return $self->state->set_shard(@arg) if @arg == 2;
    return scalar $self->state->shard(@arg);
}

sub advance { $_[0]->state->advance($_[1]) }
sub queue { $_[0]->state->queue($_[1]) }

# Moves the clock in steps of a heartbeat; the sessions given send beats.
sub pass {
    my ($self, $ms, @sessions) = @_;
    for (my $left = $ms; $left > 0; $left -= 1000) {
        $self->advance($left < 1000 ? $left : 1000);
        $_->beat for @sessions;
    }
}

sub order {
    my ($self, $name, $limit, $paused) = @_;
    return $self->state->order($name,
        ($limit // '-') . ' ' . ($paused ? 1 : 0));
}

# Ends the test. Permits of its sessions are no leak: the sessions only stop.
sub done {
    my ($self) = @_;
    $self->{redis}->cmd('FLUSHALL');
    return $self->{t}->done;
}

sub all_keys {
    my ($self) = @_;
    return sort @{ $self->{redis}->cmd('KEYS', '*') };
}

# All keys, or some, and their values in one string.
sub dump {
    my ($self, @keys) = @_;
    my $redis = $self->{redis};
    my $text = '';
    for my $key (@keys ? @keys : $self->all_keys) {
        my $type = $redis->cmd('TYPE', $key);
        my %of;
        if ($type eq 'hash') {
            %of = @{ $redis->cmd('HGETALL', $key) };
        } elsif ($type eq 'zset') {
            %of = @{ $redis->cmd('ZRANGE', $key, 0, -1, 'WITHSCORES') };
        } else {
            %of = (value => $redis->cmd('GET', $key));
        }
        $text .= join ' ', $key, map({ "$_=$of{$_}" } sort keys %of), "\n";
    }
    return $text;
}

# Commands that the scripts called while the code ran.
sub calls {
    my ($self, $code) = @_;
    my $redis = $self->{redis};
    $redis->cmd('CONFIG', 'RESETSTAT');
    $code->();
    my %calls = $redis->cmd('INFO', 'commandstats')
        =~ /^cmdstat_(\S+?):calls=(\d+)/mg;
    delete @calls{qw/evalsha info config|resetstat script|load/};
    $calls{all} += $_ for values %calls;
    return \%calls;
}

###########################################################################

package Dsem::Scripts::Session;

use warnings;
use strict;

sub name { $_[0]{name} }
sub epoch { $_[0]{epoch} }
sub gen { $_[0]{gen} }

sub channel {
    my ($self) = @_;
    return $self->{scripts}->state->channel($self->{name});
}

# Calls a script and decodes the common part of its reply. $name: of the
# semaphore, or a list of them. wrong: which of KEYS has the wrong type.
sub call {
    my ($self, $script, $name, @argv) = @_;
    my $scripts = $self->{scripts};
    my $number = ++$self->{number};
    my @head = ($self->{epoch}, $number);
    @head = join ' ', @head, splice @argv, 0, 7 if $script eq 'sync';
    @head = join ' ', @head, splice @argv, 0, 4 if $script eq 'adjust';
    my @keys = $scripts->keys_of($script, ref $name ? @$name : $name);
    push @keys, $scripts->state->fair_keys($name) if $self->{fair};
    my $raw = $scripts->run($script, \@keys,
        $self->{name}, @head, @argv);
    my ($session, $epoch, $echo, $status, @rest) = @$raw;
    die "$script: reply begins '$session $epoch $echo'\n"
        unless $session eq $self->{name} && $epoch == $self->{epoch}
        && $echo == $number;
    my $word = $Dsem::Scripts::STATUS[$status];
    return { status => $word, $word eq 'broken' ? (wrong => $rest[0]) : () },
        @rest;
}

# Subscribes to the session's own channel, on a connection of its own.
sub listen {
    my ($self) = @_;
    $self->{listener} = $self->{scripts}{t}->connect;
    $self->{listener}->cmd('SUBSCRIBE', $self->channel);
    return $self;
}

# The messages since the last call, without the seals, which must be those of
# hellos of this session; messages: without those of new sessions.
sub messages {
    my ($self) = @_;
    return grep { !/^sessions / } $self->all_messages;
}

sub all_messages {
    my ($self) = @_;
    my @got;
    $self->{scripts}{redis}->cmd('PUBLISH', $self->channel, 'until here');
    while (1) {
        my $message = $self->{listener}->reply->[2];
        return @got if $message eq 'until here';
        my ($seal, $text) = $message =~ /^([0-9a-f]{16}) (.+)$/s;
        die "message '$message' without a seal\n"
            if !grep { $_ eq $seal } @{ $self->{seals} };
        $self->{last_seal} = $seal;
        push @got, $text;
    }
}

# restarted: another process has written the state.
sub hello {
    my ($self, %arg) = @_;
    $self->{scripts}->state->set_shard(run => 'f00') if $arg{restarted};
    $self->{epoch} = $arg{epoch} // $self->{epoch} + 1;
    my $seal = $arg{seal} // sprintf '%08x%08x', $self->{seal_first},
        $self->{epoch} % 2 ** 32;
    push @{ $self->{seals} }, $seal;
    my ($reply, @rest) = $self->call('hello', undef,
        $arg{gen} // $self->{gen},
        $arg{fresh} // 1 + int rand 2 ** 50, $self->{lease},
        $arg{told} // $self->{told}, $arg{age} // 0, $arg{config} // '-',
        $seal, $arg{shards} // 1, $arg{term} // $self->{term},
        $arg{longest} // $self->{lease}, $arg{clock} // 0);
    @$reply{qw/gen live recovery known unknown process term longest clock/}
        = @rest;
    @$self{qw/gen term/} = @$reply{qw/gen term/} if $reply->{status} eq 'ok';
    return $self->_told($reply);
}

# tickets: [ticket, weight, place, epoch of the acquire, cost, key] ...
sub declare {
    my ($self, $name, %arg) = @_;
    my @tickets = @{ $arg{tickets} // [] };
    local $self->{fair} = $arg{fair} || grep { defined $_->[5] } @tickets;
    my ($reply, $over, @places) = $self->call('declare', $name,
        $arg{limit} // 1, $arg{held} // 0, $arg{more} // 0, scalar @tickets,
        map { $_->[0], $_->[1] // 1, $_->[2] // 0,
            $_->[3] // $self->{epoch} - 1, $self->{fair}
            ? defined $_->[5] ? "$_->[4] $_->[5]" : '-' : () } @tickets);
    $reply->{over} = $over;
    $reply->{places} = \@places;
    return $reply;
}

sub declared {
    my ($self) = @_;
    my ($reply, $recovery) = $self->call('declared');
    $reply->{recovery} = $recovery;
    return $reply;
}

# Connects a session that has nothing to declare.
sub enter {
    my ($self, %arg) = @_;
    my $reply = $self->hello(%arg);
    die "hello: $reply->{status}\n" unless $reply->{status} eq 'ok';
    $self->declared;
    return $self;
}

# idle: "name permits ..."
sub beat {
    my ($self, $idle) = @_;
    my ($reply, @rest) = $self->call('beat', undef, $self->{gen},
        $self->{lease}, $idle // '');
    @$reply{qw/live removed recovery published moved wanted silent longest
        clock term/} = @rest;
    return $self->_told($reply);
}

# A negative number is not that of all.
sub _told {
    my ($self, $reply) = @_;
    $self->{told} = $reply->{live} < 0 ? 0 : $reply->{live} if $reply->{status} eq 'ok';
    return $reply;
}

sub bye {
    my ($self, $whom, @careful) = @_;
    my ($reply, $removed) = $self->call('bye', undef,
        ($whom // $self)->{name}, $self->{lease}, @careful);
    $reply->{removed} = $removed;
    return $reply;
}

# The operator's order, by the script: limit and pause as its arguments, and a
# server of a pool.
sub order {
    my ($self, $name, $limit, $pause, @server) = @_;
    my ($reply, @rest) = $self->call('order', $name, $name, $limit, $pause,
        @server);
    @$reply{qw/limit configured ordered paused held waiting more was_ordered
        was_paused refused highest/} = @rest;
    return $reply;
}

our @REASON = qw/none unused probing latency errors bound/;

# The names of the logarithms of a sample; of requests that took the same time
# where they are not told.
sub logs {
    my ($arg) = @_;
    my $good = ($arg->{count} // 0) - ($arg->{errors} // 0);
    my $log = $good > 0 && $arg->{sum} ? log($arg->{sum} / $good) : 0;
    $log = 0 if $log < 0;
    $arg->{logs} //= int(1000 * $good * $log);
    $arg->{squares} //= int(1000 * $good * $log ** 2);
    return qw/logs squares/;
}

# A sample of limit=auto: count, sum (us), errors, peak, window (ms), logs,
# squares, usual, after, weight (1000); min, max, found.
sub adjust {
    my ($self, $name, %arg) = @_;
    $arg{weight} //= 1000;
    my ($reply, @rest) = $self->call('adjust', $name, $self->{gen},
        $arg{min} // 1, $arg{max} // 1000, $arg{found} // 0, $name,
        join ' ', map { $arg{$_} // 0 } qw/count sum errors peak window/,
        logs(\%arg), qw/usual after weight/);
    return $reply unless $reply->{status} eq 'ok';
    @$reply{qw/limit found reason floor latency next kept/} = @rest;
    $reply->{reason} = $REASON[ $reply->{reason} ];
    return $reply;
}

# Calls a script whose reply is a text. Returns the status, and lists of words
# of the lines by their first word.
sub text {
    my ($self, $script, $keys, @argv) = @_;
    my $number = ++$self->{number};
    my $raw = $self->{scripts}->run($script, $keys, $self->{name},
        $self->{epoch}, $number, @argv);
    my ($first, @lines) = split /\n/, $raw, -1;
    my ($session, $epoch, $echo, $status) = split / /, $first;
    die "$script: reply begins '$first'\n" unless $session eq $self->{name}
        && $epoch == $self->{epoch} && $echo == $number;
    return $Dsem::Scripts::STATUS[$status], map { [ split / /, $_, -1 ] }
        @lines;
}

# {status, shard {gen clock recovery live}, semaphores [{name held waiting limit
# configured ordered paused partial accounts {session => {held waiting idle
# lease heard}} asks [[limit, node] ...] auto {min max found reason floor latency}
# history [[age, limit, reason] ...]} ...]}; most: accounts of each; watch: ms
sub inspect {
    my ($self, $names, %arg) = @_;
    my @keys = $self->{scripts}->keys_of('inspect', @$names);
    my ($status, @lines) = $self->text('inspect', \@keys, $arg{most} // 1024,
        $arg{watch} // 0, @$names);
    my $reply = { status => $status, semaphores => [] };
    for (@lines) {
        my ($kind, @word) = @$_;
        my $of = $reply->{semaphores}[-1];
        if ($kind eq 'shard') {
            @{ $reply->{shard} }{qw/gen clock recovery live/} = @word;
        } elsif ($kind eq 'semaphore') {
            my %of = (accounts => {}, asks => []);
            @of{qw/name held waiting limit configured ordered paused
                partial/} = @word;
            push @{ $reply->{semaphores} }, \%of;
        } elsif ($kind eq 'account') {
            my $session = shift @word;
            @{ $of->{accounts}{$session} }{qw/held waiting idle lease
                heard/} = @word;
        } elsif ($kind eq 'auto') {
            @{ $of->{auto} }{qw/min max found reason floor latency/} = @word;
        } elsif ($kind eq 'history') {
            my $now = shift @word;
            push @{ $of->{history} }, [ $now - shift @word, splice @word, 0, 2 ]
                while @word;
        } elsif ($kind eq 'asks') {
            push @{ $of->{asks} }, \@word;
        } elsif ($kind eq 'server') {
            $of->{servers}{ $word[0] } = join ' ', @word[ 1 .. 3 ];
        } else {
            die "inspect: line '$kind @word'\n";
        }
    }
    return $reply;
}

# One step: {status, cursor, names []}.
sub names {
    my ($self, $cursor) = @_;
    my @keys = $self->{scripts}->keys_of('names');
    my ($status, @lines) = $self->text('names', \@keys, $cursor // 0);
    my $reply = { status => $status, names => [], nodes => {} };
    for (@lines) {
        my ($kind, @word) = @$_;
        $reply->{cursor} = $word[0] if $kind eq 'cursor';
        push @{ $reply->{names} }, "@word" if $kind eq 'name';
        $reply->{nodes}{ $word[0] } = "@word[1, 2]" if $kind eq 'node';
        die "names: line '$kind @word'\n"
            unless $kind =~ /^(cursor|name|node)$/;
    }
    return $reply;
}

# Registers with a configuration, and states its limits, in parts of so many.
sub configured {
    my ($self, $config, $limits, $size) = @_;
    my $unknown = $self->hello(config => $config)->{unknown};
    $self->state_limits($config, $limits, $size) if $unknown;
    $self->declared;
    return $self;
}

sub state_limits {
    my ($self, $config, $limits, $size) = @_;
    my @names = sort keys %$limits;
    my @parts;
    push @parts, [ splice @names, 0, $size // 4 ] while @names;
    for my $n (0 .. $#parts) {
        $self->configure($config, $n, scalar @parts,
            map { $_ => $limits->{$_} } @{ $parts[$n] });
    }
}

# One part; "-": leaves the configuration.
sub configure {
    my ($self, $config, $part, $parts, @pairs) = @_;
    my ($reply) = $self->call('configure', undef, $config,
        $config eq '-' ? () : ($part, $parts, @pairs / 2, @pairs));
    return $reply;
}

sub acquires { return map { [ $_->[0], $_->[1] // 1, $_->[2] // 0,
    $_->[3] // 10, @$_[4 .. $#$_] ] } @{ $_[0] // [] } }

sub flags {
    my (%arg) = @_;
    return ($arg{literal} ? 4 : $arg{may_set} // 1) + 2 * ($arg{keep} // 0)
        + 8 * ($arg{asks_node} // 0);
}

# A ticket that is cancelled or checked, as text.
sub ticket {
    my ($number, $weight, $cost, $key, $limit) = @{ $_[0] };
    return join ' ', $number, $weight // 1,
        defined $key ? ($cost, $limit // 0, $key) : ();
}

# ask: [ticket, weight, class, queue] ...; cancel, check: [ticket, weight] ...;
# each with cost and key where it has one, and for the others the limit at which
# it was queued; fair: there may be some.
sub sync {
    my ($self, $name, %arg) = @_;
    my @cancel = @{ $arg{cancel} // [] };
    my @ask = acquires($arg{ask});
    my @check = @{ $arg{check} // [] };
    local $self->{fair} = $arg{fair} || grep({ @$_ > 4 } @ask)
        || grep { @$_ > 2 } @cancel, @check;

    my ($reply, @rest) = $self->call('sync', $name, $self->{gen},
        $arg{limit} // 1, flags(%arg), $arg{release} // 0, scalar @cancel,
        scalar @ask, scalar @check, $name,
        map({ ticket($_) } @cancel), map({ "@$_" } @ask),
        map { ticket($_) } @check);
    return $reply unless $reply->{status} eq 'ok';

    @$reply{qw/in_use limit waiting recovery/} = splice @rest, 0, 4;
    $reply->{account} = [ splice @rest, 0, 2 ];
    @$reply{qw/may_keep more/} = splice @rest, 0, 2;
    $reply->{cancelled}{ $_->[0] } = shift @rest for @cancel;
    for (@ask) {
        my ($verdict, $place, $position) = splice @rest, 0, 3;
        $reply->{asked}{ $_->[0] } = {
            verdict => $Dsem::Scripts::VERDICT[$verdict],
            place => $place, position => $position,
        };
    }
    $reply->{checked}{ $_->[0] } = shift @rest for @check;
    $reply->{granted} = [ grep { $_ > 0 } @rest ];
    $reply->{dropped} = [ map { $_ < 0 ? -$_ : () } @rest ];
    return $reply;
}

sub sync_all {
    my ($self, $name, $most, %arg) = @_;
    my ($reply, @granted);
    my $syncs = 0;
    do {
        $reply = $self->sync($name, $syncs ? () : %arg);
        push @granted, @{ $reply->{granted} // [] };
    } while (++$syncs < $most && $reply->{more});
    return { %$reply, granted => \@granted, syncs => $syncs };
}

# Acquires with one ticket; returns the verdict or the status as a word.
sub ask {
    my ($self, $name, $ticket, %arg) = @_;
    my $reply = $self->{asked} = $self->sync($name, %arg,
        ask => [ [ $ticket, @arg{qw/weight class queue/},
            defined $arg{key} ? ($arg{cost} // 1000, $arg{key}) : () ] ]);
    return $reply->{status} unless $reply->{asked};
    return $reply->{asked}{$ticket}{verdict};
}

1;
