package Bench::Bytes;

# The memory that sessions, semaphores and tickets take in Redis, by MEMORY
# USAGE of the keys.
#
# Called by: scale.pl.

use strict;
use warnings;

use Bench::World;

use constant { MANY => 1_000, EACH => 10 };

# Rows [what, bytes] of an edition.
sub rows {
    my ($stage, $edition) = @_;
    my $world = Bench::World->new($stage, $edition);
    my @names = map { [ $edition->semaphore_keys($_) ] } qw(one many queue);
    my ($one, $many, $queue) = @names;
    my ($first) = $world->enter_live(1);
    my $registry = $world->bytes($edition->session_keys);
    my @others = $world->enter(MANY);
    $registry = $world->bytes($edition->session_keys) - $registry;

    my $ticket = Bench::World::tickets(1, 1);
    $world->send(map { $world->command($_->[0], $_->[1], acquire => $ticket) }
        [ $first, 'one' ], map { [ $_, 'many' ] } @others);
    $world->send(map {
        $world->command($others[$_], 'queue', limit => 1,
            acquire => Bench::World::tickets(1, EACH))
    } 0 .. MANY / EACH - 1);
    my @bytes = map { $world->bytes(@$_) } $one, $many;
    my $waiting = $world->bytes($queue->[1]);
    $world->end;
    return (
        ['a semaphore with one permit held', $bytes[0]],
        ['one more session that holds some',
            ($bytes[1] - $bytes[0]) / (MANY - 1)],
        ['a ticket that waits', $waiting / (MANY - 1)],
        ['a session in the registry', $registry / MANY],
    );
}

1;
