package Bench::Queue;

# Worlds with many tickets in one queue, whose calls must stay short: they wait
# for a limit, or their sessions are silent or dead. A case is a hash, see
# Bench::Rounds.
#
# Called by: scale.pl.

use strict;
use warnings;

use List::Util qw(max min);

use Bench::Print qw(grouped);
use Bench::World;

use constant {
    WAITING => 100_000, TICKETS => 10_000, WAITERS => 100,
    EACH => 10,             # tickets of a session
    ASKS => 128, BESIDE => 900, LIMIT => 10,
    BATCH => 50,            # tickets of a sync that fills a queue
    CHECKS => 200, BEATS => 400,
};

sub cases {
    my ($scale) = @_;
    my $some = sub { EACH * int max(4, $_[0] * $scale / EACH) };
    my $n = $some->(TICKETS);
    return (
        raised($some->(WAITING)), silent($n), asks($some->(BESIDE)),
        map { dead($n, $_) } qw(bye lease)
    );
}

# A pause lets the tickets queue; then the operator sets the limit to 0, and
# later to more than all of them.
sub raised {
    my ($n) = @_;
    my $sessions = min(WAITERS, $n / EACH);
    return {
        limit => $n,
        build => sub {
            my ($world) = @_;
            my @all = $world->enter_live($sessions);
            order($world, '- 1');
            fill($world, $n / $sessions, @all);
            order($world, '0 0');
            $world->turn($all[0], 's0');
            return \@all;
        },
        acts => [ {
            lines => [ [grouped($n) . ' wait, limit raised', 'longest', 2] ],
            act => sub {
                my ($world, $all) = @_;
                order($world, "$n 0");
                my $i = 0;
                1 while $world->turn($all->[ $i++ % @$all ], 's0')->{waiting};
            },
        } ],
    };
}

sub order {
    my ($world, $text) = @_;
    $world->call($world->edition->order('s0', $text));
}

# n tickets of each of these sessions, the sessions one after the other.
sub fill {
    my ($world, $n, @sessions) = @_;
    my $each = min($n, BATCH);
    for my $session (@sessions) {
        $world->send(map {
            $world->command($session, 's0', acquire =>
                Bench::World::tickets(1 + $_ * $each, $each))
        } 0 .. $n / $each - 1);
    }
}

# A holder has all permits; behind n tickets of sessions that send nothing
# more, there is one of a live session.
sub blocked {
    my ($world, $n, %arg) = @_;
    my ($holder, $waiter) = $world->enter_live(2);
    my @quiet = $world->enter($n / EACH, %arg);
    $world->turn($holder, 's0', acquire => [ [1, LIMIT, 0, 0] ]);
    fill($world, EACH, @quiet);
    $world->turn($waiter, 's0', acquire => Bench::World::tickets(1, 1));
    return { holder => $holder, waiter => $waiter, quiet => \@quiet };
}

# A permit comes free; returns the checks until the live session has it.
sub unblock {
    my ($world, $state) = @_;
    $world->turn($state->{holder}, 's0', release => 1);
    return $world->polls($state->{waiter}, 's0', 1, 1, CHECKS);
}

sub silent {
    my ($n) = @_;
    return {
        limit => LIMIT, age => 1,
        build => sub { blocked($_[0], $n) },
        acts => [ {
            lines => [ [grouped($n) . ' tickets of the silent', 'longest', 2],
                ['  checks of a live one behind', 'value', 1] ],
            act => sub { unblock(@_) },
        } ],
    };
}

# how: bye of the holder, which removes them; lease: they expire
sub dead {
    my ($n, $how) = @_;
    my $bye = $how eq 'bye';
    return {
        limit => LIMIT, age => !$bye, wakes => !$bye,
        build => sub {
            my ($world) = @_;
            return blocked($world, $n,
                $bye ? () : (lease => Bench::World::SHORT));
        },
        acts => [ {
            lines => [ [ grouped($n) . ' tickets of the '
                . ($bye ? 'removed' : 'expired'), 'longest', 2 ] ],
            act => sub {
                my ($world, $state) = @_;
                $bye ? remove($world, $state) : expire($world, $state);
                return unblock($world, $state);
            },
        } ],
    };
}

sub remove {
    my ($world, $state) = @_;
    $world->send(map {
        $world->edition->bye($state->{holder}, $_, Bench::World::LEASE)
    } @{ $state->{quiet} });
}

# Beats until all sessions with short leases are removed: each one moves the
# clock in Redis by a quarter of such a lease.
sub expire {
    my ($world, $state) = @_;
    my $removed = 0;
    for (1 .. BEATS) {
        my $reply = $world->call($world->edition->beat($state->{holder}));
        last if $removed && !$reply->[5];
        $removed += $reply->[5];
        Bench::World::pass() if !$removed;
    }
    $world->wake;
}

# Permits are free, but not enough for the first live ticket. The queue is
# full, so each acquire may have to find out whether it could be served.
sub asks {
    my ($n) = @_;
    return {
        limit => LIMIT, age => 1,
        build => sub {
            my ($world) = @_;
            my ($holder, $asker) = $world->enter_live(2);
            my @quiet = $world->enter($n / EACH);
            $world->turn($holder, 's0', acquire => [ [1, LIMIT, 0, 0] ]);
            fill($world, EACH, @quiet);
            $world->turn($asker, 's0',
                acquire => [ [ 1, LIMIT, 0, Bench::World::QUEUE ] ]);
            return { holder => $holder, asker => $asker };
        },
        acts => [ {
            lines => [ [ ASKS . " asks, $n silent, a heavy", 'longest',
                2 ] ],
            act => sub {
                my ($world, $state) = @_;
                $world->turn($state->{holder}, 's0', release => LIMIT / 2);
                $world->turn($state->{asker}, 's0',
                    acquire => Bench::World::tickets(2, ASKS, $n));
            },
        } ],
    };
}

1;
