package Bench::Servers;

# What the scripts need for a pool with 64 servers, in which many sessions have a
# permit each: the mean and the longest call of each kind, by Redis.
#
# Called by: pool.pl.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use List::Util qw(max min);

use Bench::Edition;
use Bench::Wire;
use Bench::World;

use constant {
    SERVERS => 64,
    LISTS => 32,                # that are kept of a pool
    CALLS => 300,               # of a kind, at most
    SETS_LIMIT => 1, POOL => 16,    # flags of sync
    CUT => 1_000,               # calls, until a turn of work has ended
    BATCH => 128,               # acquires of one call of a worker, at most
};

# sessions: their number, 10 at least
sub new {
    my ($class, $stage, $sessions) = @_;
    my $edition = Bench::Edition->new($stage, 'second');
    return bless { stage => $stage, edition => $edition, count => $sessions,
        calls => min($sessions, CALLS), each => 1 + int $sessions / SERVERS,
        sha => { map { $_ => $stage->redis->cmd(qw(SCRIPT LOAD),
            Bench::Edition::assemble($edition->folder, $_))
        } qw(inspect order) } }, $class;
}

# Rows [what is called, us of one call, ms of the longest].
sub rows {
    my ($self) = @_;
    return map { $self->$_ }
        qw(plain usual many lists skipped whole connections shown);
}

###########################################################################
# worlds

# "<server>=<limit> ..." of these numbers, with an id.
sub list {
    my ($limit, @numbers) = @_;
    my $text = join ' ', map { server($_) . "=$limit" } @numbers;
    return md5_hex($text) . " $text";
}

sub server { my ($n) = @_; return sprintf '10.0.%d.%d:8000', $n / 64, $n % 64 }

# Each session has a permit, by these lists in turn.
sub build {
    my ($self, @lists) = @_;
    my $world = Bench::World->new($self->{stage}, $self->{edition},
        limit => $self->{each}, flags => SETS_LIMIT + POOL);
    my @sessions = $world->enter($self->{count});
    $self->{world} = $world;
    $self->{ticket} = 0;
    $_->{list} = $lists[ $_->{name} =~ /(\w+)$/ ? hex($1) % @lists : 0 ]
        for @sessions;
    $_->{servers} = [ numbers($_->{list}) ] for @sessions;
    $self->ask($_) for @sessions;
    return @sessions;
}

sub numbers { return $_[0] =~ / (\S+)=/g }

# Tickets that wait, oldest first, by session.
sub fill {
    my ($self, @sessions) = @_;
    my $full = 0;
    until ($full) { $full = !$self->ask($sessions[0]) }
    my @waiting = ($sessions[0], map { $self->ask($_); $_ } @sessions);
    return \@waiting;
}

# One acquire, and the release of a permit of this server. Returns the name of
# the server that was granted, if one was.
sub ask {
    my ($self, $session, $release) = @_;
    my $reply = $self->call($session, ask => 1, release => $release);
    return if $reply->[14] != 1;
    my $server = $session->{servers}[ $reply->[15] - 1 ];
    push @{ $session->{held} }, $server;
    return $server;
}

# ask: so many acquires; release: a server, or several. As a worker does it states
# the list once.
sub call {
    my ($self, $session, %arg) = @_;
    my @servers = map { ref ? @$_ : $_ // () } $arg{release};
    my $list = $session->{list};
    $list =~ s/ .*// if $session->{stated}++;
    my $first = $self->{ticket} + 1;
    $self->{ticket} += $arg{ask} // 0;
    my $reply = $self->{world}->call($self->{world}->command($session, 'p',
        release => scalar @servers,
        acquire => Bench::World::tickets($first, $arg{ask} // 0),
        pool => [ $list, join ' ', map { "$_=1" } @servers ]));
    die "sync: status $reply->[3]\n" if $reply->[3];
    return $reply;
}

sub executed {
    my ($self, $command) = @_;
    my $reply = $self->{world}->call($command);
    die "status $reply->[3]\n" if $reply->[3];
}

# A call of another script.
sub run {
    my ($self, $script, $keys, @argv) = @_;
    return $self->{world}->call(Bench::Wire::command('EVALSHA',
        $self->{sha}{$script}, scalar @$keys, @$keys, @argv));
}

# code: called so often with a number
sub measured {
    my ($self, $label, $calls, $code) = @_;
    my $seen = $self->{world}->measure(sub { $code->($_) for 1 .. $calls });
    die "$label: $seen->{failed}" if $seen->{failed};
    return [ $label, $seen->{us} / $seen->{calls}, $seen->{longest} ];
}

# Permits go from the sessions in turn to the oldest ticket, and each waits again.
sub handed_on {
    my ($self, $label, @sessions) = @_;
    my $waiting = $self->fill(@sessions);
    return $self->measured($label, $self->{calls}, sub {
        my $session = $sessions[ $_[0] % @sessions ];
        my $server = shift @{ $session->{held} } // return;
        push @{ $waiting->[0]{held} }, $server;
        shift @$waiting;
        $self->ask($session, $server);
        push @$waiting, $session;
    });
}

###########################################################################
# cases

# For comparison: no pool. That of the first session goes round.
sub plain {
    my ($self) = @_;
    $self->{world} = Bench::World->new($self->{stage}, $self->{edition});
    my ($one) = $self->{world}->enter($self->{count});
    my $row = $self->measured('not a pool, permits are free', CALLS, sub {
        $self->{world}->call($self->{world}->command($one, 's0',
            release => $_[0] > 1 ? 1 : 0,
            acquire => Bench::World::tickets($_[0], 1)));
    });
    $self->{world}->end;
    return $row;
}

sub usual {
    my ($self) = @_;
    my @sessions = $self->build(list($self->{each}, 0 .. SERVERS - 1));
    my $quiet = $self->measured('permits are free', $self->{calls}, sub {
        my $session = $sessions[ $_[0] % @sessions ];
        $self->ask($session, shift @{ $session->{held} });
    });
    my $contended = $self->handed_on('all wait, a permit is handed on',
        @sessions);
    my $order = $self->measured('an order', 20, sub {
        my ($one) = @sessions;
        $self->run('order', [ $self->{edition}->sync_keys('p') ],
            @$one{qw(name epoch)}, 1, 'p', $self->{each} + 1 - $_[0] % 2, 0);
    });
    my $shown = $self->inspect($sessions[0], 'inspect');
    $self->{world}->end;
    return $quiet, $contended, $order, $shown;
}

# One session has all permits, all others wait: permits of all servers go to as
# many of them at once, some by each call.
sub many {
    my ($self) = @_;
    my $world = $self->{world} = Bench::World->new($self->{stage},
        $self->{edition}, limit => $self->{each}, flags => SETS_LIMIT + POOL);
    my ($one, @others) = $world->enter($self->{count});
    $self->{ticket} = 0;
    $_->{list} = list($self->{each}, 0 .. SERVERS - 1) for $one, @others;
    my $acquired = $self->measured(BATCH . ' permits by one call',
        max(1, int $self->{each} * SERVERS / BATCH), sub {
            $self->call($one, ask => BATCH);
        });
    $self->call($_, ask => 1) for @others;
    my $granted = $self->measured(SERVERS . ' permits for other sessions',
        min(5, $self->{each}), sub {
            my $reply = $self->call($one,
                release => [ map { server($_) } 0 .. SERVERS - 1 ]);
            for (1 .. CUT) {
                last if !$reply->[11];
                $reply = $self->call($one);
            }
        });
    $world->end;
    return $acquired, $granted;
}

# As many lists as are kept, each with all servers.
sub lists {
    my ($self) = @_;
    my @sessions = $self->build(map {
        list($self->{each} + $_, 0 .. SERVERS - 1)
    } 1 .. LISTS);
    my $row = $self->handed_on('the same with ' . LISTS . ' lists', @sessions);
    $self->{world}->end;
    return $row;
}

# The last server is in one session's list only: its permits are free, while all
# others wait for the other servers.
sub skipped {
    my ($self) = @_;
    my @sessions = $self->build(list($self->{each}, 0 .. SERVERS - 2));
    $self->fill(@sessions);
    my ($one) = $self->{world}->enter(1);
    $one->{list} = list($self->{each}, 0 .. SERVERS - 1);
    $one->{servers} = [ numbers($one->{list}) ];
    my $row = $self->measured('tickets that cannot use what is free', 1, sub {
        my $reply = $self->call($one, ask => 1);
        for (1 .. CUT) {
            last if !$reply->[11];
            $reply = $self->call($one);
        }
    });
    $self->{world}->end;
    return $row;
}

# Sessions with permits at all servers: they declare, and end.
sub whole {
    my ($self) = @_;
    my @sessions = $self->build(list(2 * $self->{each}, 0 .. SERVERS - 1));
    my @whole = @sessions[ 0 .. 9 ];
    my $world = $self->{world};
    my $held = join ' ', map { server($_) . '=1' } 0 .. SERVERS - 1;
    my $declare = $self->measured('declare, permits at all servers', 10, sub {
        my $session = $whole[ $_[0] - 1 ];
        $session->{epoch}++;
        $session->{stated} = 1;
        $world->call($self->{edition}->hello($session, scalar @sessions));
        $world->call($self->{edition}->evalsha('declare',
            [ $self->{edition}->declare_keys('p') ],
            @$session{qw(name epoch)}, 1, $self->{each}, SERVERS, 2, 0,
            $session->{list}, $held));
        $world->call($self->{edition}->declared($session));
    });
    my $ended = $self->measured('such a session has ended', 10, sub {
        my $session = $whole[ $_[0] - 1 ];
        $world->call($self->{edition}->bye($sessions[-1], $session,
            Bench::World::LEASE));
        $self->ask($sessions[-1]);
    });
    $world->end;
    return $declare, $ended;
}

# What each session sends of itself: no script reads the pool for it.
sub connections {
    my ($self) = @_;
    my @sessions = $self->build(list($self->{each}, 0 .. SERVERS - 1));
    my $edition = $self->{edition};
    my $calls = int @sessions / 4;
    my $beat = $self->measured('beat of a session', $calls, sub {
        $self->executed($edition->beat($sessions[ $_[0] ]));
    });
    my $hello = $self->measured('hello, a session has a new connection',
        $calls, sub {
            my $session = $sessions[ $_[0] ];
            $session->{epoch}++;
            $self->executed($edition->hello($session, scalar @sessions));
        });
    my $bye = $self->measured('bye of a session', $calls, sub {
        $self->executed($edition->bye($sessions[0], $sessions[ -$_[0] ],
            Bench::World::LEASE));
    });
    $self->{world}->end;
    return $hello, $beat, $bye;
}

# A display, of as many servers as it has of all pools together.
sub shown {
    my ($self) = @_;
    my @sessions = $self->build(map {
        my $list = $_;
        list($self->{each}, map { 32 * $list + $_ } 0 .. 31)
    } 0 .. LISTS - 1);
    my $row = $self->inspect($sessions[0], 'inspect, 32 lists of 32 servers');
    $self->{world}->end;
    return $row;
}

sub inspect {
    my ($self, $session, $label) = @_;
    my $edition = $self->{edition};
    my @keys = ($edition->key, $edition->key('sessions'),
        $edition->key('idle'), $edition->key('s', 'p'),
        $edition->key('a', 'p'));
    return $self->measured($label, 50, sub {
        $self->run('inspect', \@keys, @$session{qw(name epoch)}, 1, 1024, 0,
            'p');
    });
}

1;
