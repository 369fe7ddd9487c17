package Bench::FairSync;

# The script time of a contended sync while 1,000 tickets wait, without and with
# "fair=", where each is of another key. A session releases a permit, which goes
# to the head of the queue, and acquires one, which waits; the sessions take
# turns. If there is one, it has all tickets, and nothing is published. Rounds
# are interleaved, the time is that of INFO commandstats. A third side has keys
# and the scripts of before new keys shared turns, where git has them.
#
# Called by: fair.pl.

use strict;
use warnings;

use Carp qw(croak);

use Bench::Edition;
use Bench::Stats qw(median ratios);
use Bench::World;

use constant { LIMIT => 12, COST => 50_000, NEW => 1_000_000 };

# waiting: tickets; sessions: their number
sub new {
    my ($class, $stage, $waiting, $sessions) = @_;
    my $edition = Bench::Edition->new($stage, 'second');
    my $before = eval { Bench::Edition->new($stage, 'before') };
    my @sides = map {
        prepare(Bench::World->new($stage, $_->[0], limit => LIMIT), $_->[1],
            $waiting, $sessions)
    } [$edition, 0], [$edition, 1], $before ? [$before, 1] : ();
    return bless { sides => \@sides }, $class;
}

sub prepare {
    my ($world, $fair, $waiting, $sessions) = @_;
    my $side = { world => $world, sessions => [$world->enter_live($sessions)],
        fair => $fair, waiting => $waiting, next => 0, us => [] };
    $world->send(commands($side, 0, LIMIT));
    my @known = $fair ? map { [ NEW + $_, $_ ] } LIMIT .. LIMIT + $waiting - 1
        : ();
    # new keys would be passed by known ones: they have a cheap ticket before
    $world->send(map { known($side, $_->[1], acquire => [ [ $_->[0], 1, 0,
        Bench::World::QUEUE, 1, 'k' . $_->[1] % $waiting ] ]) } @known);
    $world->send(commands($side, 0, $waiting));
    $world->send(map { known($side, $_->[1], cancel => [ [ $_->[0], 1, 1,
        LIMIT, 'k' . $_->[1] % $waiting ] ]) } @known);
    return $side;
}

sub known {
    my ($side, $k, @what) = @_;
    return $side->{world}->command($side->{sessions}[
        $k % @{ $side->{sessions} } ], 's0', fair => 1, @what);
}

# So many syncs with an acquire each. The keys take turns, as their tickets are
# granted in turn.
sub commands {
    my ($side, $release, $n) = @_;
    return map {
        my $k = $side->{next}++;
        my $session = $side->{sessions}[$k % @{ $side->{sessions} }];
        $side->{world}->command($session, 's0', release => $release,
            fair => $side->{fair}, acquire => [ [
                1 + $k, 1, 0, Bench::World::QUEUE,
                $side->{fair} ? (COST, 'k' . $k % $side->{waiting}) : (),
            ] ])
    } 1 .. $n;
}

# So many syncs of each side.
sub round {
    my ($self, $n) = @_;
    for my $side (@{ $self->{sides} }) {
        my $world = $side->{world};
        my @commands = commands($side, 1, $n);
        $world->wake;
        $world->{redis}->cmd(qw(CONFIG RESETSTAT));
        $world->send(@commands);
        my ($calls, $us) = $world->script_calls;
        croak "$calls calls of $n" if $calls != $n;
        push @{ $side->{us} }, $us / $calls;
    }
}

# Permits and tickets as the next sync would see them, of each side.
sub states {
    my ($self) = @_;
    return map {
        my $state = $_->{world}->sync($_->{sessions}[0], 's0',
            fair => $_->{fair});
        [ @$state{qw(in_use waiting)} ]
    } @{ $self->{sides} };
}

# us without and with "fair=", the median of the rounds' ratios; likewise us by
# the scripts of before and the ratio to these, if they are there
sub result {
    my ($self) = @_;
    my ($plain, $fair, $before) = map { $_->{us} } @{ $self->{sides} };
    return median(@$plain), median(@$fair), median(ratios($fair, $plain)),
        $before ? (median(@$before), median(ratios($fair, $before))) : ();
}

1;
