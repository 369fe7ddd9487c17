package Bench::Crowd;

# Worlds with many sessions, accounts or bars, whose calls must stay short. A
# case is a hash, see Bench::Rounds.
#
# Called by: scale.pl.

use strict;
use warnings;

use List::Util qw(max);

use Bench::Print qw(grouped);
use Bench::World;

use constant {
    SESSIONS => 10_000, ACCOUNTS => 4_000, DEAD => 8_000, BARS => 10_000,
    STORM => 1_000, HOLDERS => 100,
    REPEATED => 20,         # calls of a kind in a round
    BEATS => 200,           # a minute of a small fleet
    CHECKS => 60,
};

sub cases {
    my ($scale) = @_;
    my $some = sub { int max(40, $_[0] * $scale) };
    return (
        sessions($some->(SESSIONS)), accounts($some->(ACCOUNTS)),
        dead_accounts($some->(DEAD)), bars($some->(BARS)),
    );
}

sub storms {
    my ($scale) = @_;
    my $n = int max(40, STORM * $scale);
    return storm($n, 0), storm($n, 1);
}

sub sessions {
    my ($n) = @_;
    my $tenth = $n / 10;
    return {
        build => sub { [ $_[0]->enter($n) ] }, lasts => 1,
        acts => [
            { lines => [ [grouped($n) . ' sessions: beat', 'longest', 2] ],
                act => sub { beats($_[0], @{ $_[1] }[ 0 .. $tenth - 1 ]) } },
            { lines => [ ['  hello, declared', 'longest', 2] ],
                act => sub {
                    my ($world, $all) = @_;
                    $world->send(map { $world->again($_) }
                        @$all[ 0 .. $tenth - 1 ]);
                } },
            { lines => [ ['  sync', 'longest', 2] ],
                act => sub {
                    my ($world, $all, $round) = @_;
                    my $ticket = Bench::World::tickets($round, 1);
                    $world->send(map {
                        $world->command($all->[ $tenth + $_ ], 's' . $_ % 100,
                            acquire => $ticket)
                    } 0 .. $tenth - 1);
                } },
        ],
    };
}

sub beats {
    my ($world, @sessions) = @_;
    $world->send(map { $world->edition->beat($_) } @sessions);
}

# All permits are idle, each in a session of its own. A session that has none
# asks for some; then sessions end, and it takes their permits.
sub accounts {
    my ($n) = @_;
    my $want = int max(1, $n / 3 / REPEATED);
    return {
        limit => $n, flags => Bench::World::SETS_LIMIT + Bench::World::REUSES,
        build => sub {
            my ($world) = @_;
            my @all = ($world->enter_live(1), $world->enter($n));
            hold($world, @all[ 1 .. $n ]);
            return \@all;
        },
        acts => [
            { lines => [ [grouped($n) . ' accounts: a recall', 'longest', 2] ],
                act => sub { recall($_[0], $_[1], $want) } },
            { lines => [ ['  a session ended', 'longest', 2] ],
                act => sub { take_over($_[0], $_[1]) } },
        ],
    };
}

# Each of these sessions has a permit of s0.
sub hold {
    my ($world, @sessions) = @_;
    my $ticket = Bench::World::tickets(1, 1);
    $world->send(map { $world->command($_, 's0', acquire => $ticket) }
        @sessions);
}

sub recall {
    my ($world, $all, $want) = @_;
    for my $n (1 .. REPEATED) {
        my $tickets = Bench::World::tickets(1 + $n * $want, $want);
        $world->turn($all->[0], 's0', acquire => $tickets);
        $world->turn($all->[0], 's0',
            cancel => [ map { [ @$_[ 0, 1 ] ] } @$tickets ]);
    }
}

sub take_over {
    my ($world, $all) = @_;
    my ($taker, @others) = @$all;
    for my $n (1 .. REPEATED) {
        my $ticket = 1_000_000 + $n;
        $world->call($world->edition->bye($taker, $others[-$n],
            Bench::World::LEASE));
        my $state = $world->turn($taker, 's0',
            acquire => Bench::World::tickets($ticket, 1));
        $world->polls($taker, 's0', $ticket, $n, CHECKS)
            if $state->{held} < $n;
    }
}

# The holders of all permits have ended.
sub dead_accounts {
    my ($n) = @_;
    return {
        limit => $n,
        build => sub {
            my ($world) = @_;
            my ($one) = $world->enter_live(1);
            my @dead = $world->enter($n);
            hold($world, @dead);
            $world->send(map {
                $world->edition->bye($one, $_, Bench::World::LEASE)
            } @dead);
            return $one;
        },
        acts => [ {
            lines => [ [grouped($n) . ' accounts of the dead', 'longest', 2] ],
            act => sub {
                my ($world, $one) = @_;
                my $state = $world->turn($one, 's0',
                    acquire => Bench::World::tickets(1, 1));
                $world->polls($one, 's0', 1, 1, CHECKS) if !$state->{held};
            },
        } ],
    };
}

# All of them have ended, and are deleted by the beats of a live session.
sub bars {
    my ($n) = @_;
    return {
        age => 1,
        build => sub {
            my ($world) = @_;
            my ($one) = $world->enter_live(1);
            $world->send(map {
                $world->edition->bye($one, $_, Bench::World::SHORT)
            } $world->enter($n));
            return $one;
        },
        # the beats of wake() are part of the measurement
        wakes => 1,
        acts => [ {
            lines => [ [grouped($n) . ' bars', 'longest', 2] ],
            act => sub {
                my ($world, $one) = @_;
                beats($world, ($one) x BEATS);
            },
        } ],
    };
}

# All permits are in use. Every session connects again and asks for one; held:
# permits that each has and declares.
sub storm {
    my ($n, $held) = @_;
    my @lines = $held
        ? ([grouped($n) . ' with a permit each, in all', 'sum'])
        : ([grouped($n) . ' reconnects, in all', 'sum', 0.5]);
    return {
        limit => $held ? $n : HOLDERS,
        build => sub {
            my ($world) = @_;
            my @all = $world->enter($n);
            hold($world, $held ? @all : $world->enter(HOLDERS));
            return \@all;
        },
        acts => [ {
            lines => [ @lines, ['  the longest call', 'longest', 2] ],
            act => sub {
                my ($world, $all) = @_;
                my $ticket = Bench::World::tickets(2, 1);
                $world->send($world->again($_, $held),
                    $world->command($_, 's0', acquire => $ticket)) for @$all;
            },
        } ],
    };
}

1;
