package Bench::Rounds;

# Runs cases with two editions, in interleaved rounds, and keeps what was seen.
# A case is a hash:
#
#   build   code ($world): creates the state, returns it
#   acts    list of { act, lines }; act: code ($world, state, round), which is
#           measured; lines: [label, what, aim], what is longest (ms of the
#           longest call), sum (seconds of all calls) or value (of the code)
#   age     1: silent sessions are silent and short leases have ended
#   wakes   1: the live sessions send their beats inside the measurement
#   lasts   1: the world is used for all rounds, else it is built each time
#   limit, flags    of the syncs
#
# Called by: scale.pl.

use strict;
use warnings;

use Bench::World;
use Dsem::Wait qw(now);

# seconds; a case that took longer with an edition has no further round
use constant LONG => 6;

# editions: the two of them
sub new {
    my ($class, $stage, $rounds, @editions) = @_;
    return bless { stage => $stage, rounds => $rounds,
        editions => \@editions }, $class;
}

# Rows of lines: { label, what, aim, seen => [first, second] }; what was seen is
# { all: value of each round, calls, failed }.
sub run {
    my ($self, $case) = @_;
    my @sides = map { { edition => $_, took => 0 } } @{ $self->{editions} };
    my @rows = map {
        my $act = $_;
        map { {
            label => $_->[0], what => $_->[1], aim => $_->[2],
            seen => [ map { { all => [], calls => [] } } @sides ],
        } } @{ $act->{lines} };
    } @{ $case->{acts} };
    for my $round (1 .. $self->{rounds}) {
        for my $i (grep { !$sides[$_]{done} } 0 .. $#sides) {
            my $failed = $self->prepare($case, $sides[$i]) // next;
            $sides[$i]{done} = 1;
            $_->{seen}[$i]{failed} //= $failed for @rows;
        }
        last unless grep { !$_->{done} } @sides;
        Bench::World::age($case->{wakes} ? () : map { $_->{world} // () } @sides)
            if $case->{age};
        $self->act($case, $round, \@rows, @sides);
    }
    $_->{world} && $_->{world}->end for @sides;
    return @rows;
}

# Returns the error of a script, if one ends it.
sub prepare {
    my ($self, $case, $side) = @_;
    return if $side->{world};
    my $begin = now;
    $side->{world} = Bench::World->new($self->{stage}, $side->{edition},
        map { defined $case->{$_} ? ($_ => $case->{$_}) : () }
            qw(limit flags));
    my $built = eval { $side->{state} = $case->{build}->($side->{world}); 1 };
    $side->{took} += now - $begin;
    return $built ? undef : $@;
}

# One round: each act with the one edition, then with the other.
sub act {
    my ($self, $case, $round, $rows, @sides) = @_;
    my @order = $round % 2 ? (0, 1) : (1, 0);
    my $first = 0;
    for my $act (@{ $case->{acts} }) {
        my @mine = @$rows[ $first .. $first + $#{ $act->{lines} } ];
        $first += @mine;
        for my $i (grep { !$sides[$_]{done} } @order) {
            my ($world, $state) = @{ $sides[$i] }{qw(world state)};
            my $begin = now;
            $world->wake unless $case->{wakes};
            my $seen = $world->measure(sub {
                $world->wake if $case->{wakes};
                return $act->{act}->($world, $state, $round);
            });
            $sides[$i]{took} += now - $begin;
            note($_, $i, $seen) for @mine;
            $sides[$i]{failed} ||= $seen->{failed};
        }
    }
    finish($case, $_) for grep { !$_->{done} } @sides;
}

sub note {
    my ($row, $i, $seen) = @_;
    my $of = $row->{seen}[$i];
    $of->{failed} //= $seen->{failed};
    push @{ $of->{calls} }, $seen->{calls};
    push @{ $of->{all} }, $row->{what} eq 'sum' ? $seen->{us} / 1e6
        : $row->{what} eq 'value' ? $seen->{value} : $seen->{longest};
}

sub finish {
    my ($case, $side) = @_;
    $side->{done} = $side->{failed} || $side->{took} > LONG;
    return if $case->{lasts} && !$side->{done};
    (delete $side->{world})->end;
}

1;
