package Soak::Schedule;

# When which fault happens: a pure function of the seed and the length. A phase
# consists of cycles; a cycle is load with faults, calm (load without faults),
# and quiet (no load: nothing may be left). Kinds of faults are drawn from a
# bag, so that each of them comes up.
#
# Faults may overlap, except where the overlap is one of the named exceptions of
# the limit: see fits().
#
# Called by: soak.pl.

use strict;
use warnings;

use List::Util qw(max min);

use constant { FACTOR => 25_214_903_917, MASK => 2**48 - 1 };
use constant { NODES => 3, WORKERS => 2 };

our @PHASES = qw(single sentinel cluster);

# s; the parts of a cycle without faults; the calm is longer where a cycle is
use constant { CYCLE => 60, BEGIN_AT => 2, CALM => 5, QUIET => 3 };
use constant { CALM_SHARE => 0.14, CALM_MOST => 8 };

# s, between two faults
use constant { PAUSE => 0.8, SPREAD => 2.4 };

# kind => [how many in a bag, arguments, s from, s to, traits]. Arguments:
# node, worker, sem, and others of Soak::Faults. Traits: session (a new one
# comes), fresh (its node has never seen the fleet), cut (a worker cannot reach
# Redis, or does not run), loss (Redis loses its state, or its master).
my %ANY = (
    reload          => [2, 'node', 0, 0, 'session'],
    reload_all      => [1, '', 0, 0, 'session'],
    upgrade         => [1, 'node', 6, 6, 'session fresh'],
    kill_worker     => [3, 'node worker', 0, 0, 'session'],
    kill_node       => [1, 'node', 0.3, 3, 'session fresh'],
    stop_node       => [1, 'node', 0.3, 2, 'session fresh'],
    quit_node       => [1, 'node', 5, 6, 'session fresh'],
    freeze_worker   => [2, 'node worker', 0.2, 1.5, 'cut'],
    suspend_worker  => [1, 'node worker', 4, 5, 'cut'],
    limit           => [2, 'sem value', 2, 4, ''],
    pause           => [1, 'sem', 1.5, 2.5, ''],
    random_keys     => [2, '', 2, 4, ''],
    remove_session  => [1, 'node worker', 0, 0, 'session'],
    client_kill     => [2, 'sem', 0, 0, ''],
    script_flush    => [2, 'sem', 0, 0, ''],
    flushall        => [1, 'sem', 0, 0, 'loss'],
    out_of_memory   => [1, 'sem', 0.5, 2, 'loss'],
);
my %OF = (
    single => {
        %ANY,
        link_cut        => [2, 'node', 0, 0, ''],
        link_reset      => [1, 'node', 0, 0, ''],
        link_freeze     => [2, 'node dir', 0.3, 2.5, 'cut'],
        link_lost       => [1, 'node dir', 4, 5, 'cut'],
        link_delay      => [2, 'node dir delay', 1, 3, 'cut'],
        link_swallow    => [2, 'node', 1, 3, ''],
        link_slice      => [1, 'node', 0.5, 1.5, 'cut'],
        link_refuse     => [1, 'node', 0.5, 2.5, 'cut'],
        redis_restart   => [1, '', 0, 0, 'loss'],
        redis_down      => [2, '', 0.5, 4, 'loss'],
        redis_freeze    => [2, '', 0.3, 3, 'loss'],
        client_pause    => [1, '', 0.3, 1.5, 'loss'],
        clock_step      => [2, 'seconds', 0, 0, ''],
    },
    sentinel => {
        %ANY,
        failover        => [3, '', 6, 7, 'loss'],
        master_kill     => [2, '', 7, 8, 'loss'],
        master_freeze   => [2, '', 7, 8, 'loss'],
        sentinel_kill   => [2, 'sentinel', 2, 4, ''],
        replica_kill    => [1, '', 2, 4, ''],
    },
    cluster => {
        %ANY,
        shard_failover  => [3, 'sem', 3, 4, 'loss'],
        shard_kill      => [2, 'sem', 6, 7, 'loss'],
        shard_freeze    => [2, 'sem', 6, 7, 'loss'],
        slot_move       => [2, 'sem', 2, 3, 'loss'],
    },
);

# kinds that take one thing for themselves; the others take their node
my %TAKES = (
    (map { $_ => 'redis' } qw(flushall out_of_memory redis_restart redis_down
        redis_freeze client_pause clock_step failover master_kill
        master_freeze sentinel_kill replica_kill shard_failover shard_kill
        shard_freeze slot_move client_kill script_flush limit pause
        remove_session)),
    reload_all => 'nodes',
    random_keys => 'clients',
);

# s; the traits of a fault remain until the fleet has found together again
use constant REST => { session => 1.5, fresh => 3.5, cut => 1.5, loss => 3.5 };

sub kinds { return sort keys %{ $OF{ $_[0] } } }

# The faults in order of time: { id at phase kind for node ... }. "at" counts
# from the beginning of the phase's load; kind "quiet" ends a cycle.
sub list {
    my ($seed, $seconds) = @_;
    my $self = bless { state => ($seed * 2654435761 + 1) & MASK, n => 0 };
    $self->rand for 1 .. 10;
    my @all;
    for my $phase (@PHASES) {
        @$self{qw(phase bag active)} = ($phase, [], []);
        push @all, $self->phase($seconds / @PHASES);
    }
    return @all;
}

# A linear congruential generator, the same on every machine.
sub rand {
    my ($self) = @_;
    use integer;
    $self->{state} = ($self->{state} * FACTOR + 11) & MASK;
    no integer;
    return $self->{state} / 2**48;
}

sub pick { $_[1][ int($_[0]->rand * @{ $_[1] }) ] }

sub between {
    my ($self, $from, $to) = @_;
    return sprintf('%.2f', $from + $self->rand * ($to - $from)) + 0;
}

sub phase {
    my ($self, $length) = @_;
    my $cycles = int($length / CYCLE + 0.5) || 1;
    my $cycle = $length / $cycles;
    return map { $self->cycle($_ * $cycle, ($_ + 1) * $cycle) }
        0 .. $cycles - 1;
}

sub cycle {
    my ($self, $from, $to) = @_;
    my $quiet = $to - QUIET;
    my $end = $quiet - max(CALM, min(CALM_MOST, CALM_SHARE * ($to - $from)));
    my @faults;
    my $at = $from + BEGIN_AT;
    while ($at < $end) {
        my $fault = $self->draw($at, $end);
        push @faults, $fault if $fault;
        $at += $self->between(PAUSE, PAUSE + SPREAD);
    }
    return @faults, { id => ++$self->{n}, at => $quiet,
        phase => $self->{phase}, kind => 'quiet', for => 0 };
}

# The first kind in the bag that fits, so that none is forgotten.
sub draw {
    my ($self, $at, $end) = @_;
    $self->fill if @{ $self->{bag} } < 12;
    # those that have ended long ago are in the way of none
    my $rest = max(0.5, values %{ +REST });
    $self->{active} = [ grep { $_->{at} + $_->{for} + $rest > $at }
        @{ $self->{active} } ];
    for my $i (0 .. $#{ $self->{bag} }) {
        my $kind = $self->{bag}[$i];
        my $fault = $self->fault($kind, $at);
        next if $at + $fault->{for} > $end + 0.5 || !$self->fits($fault);
        splice @{ $self->{bag} }, $i, 1;
        $fault->{id} = ++$self->{n};
        push @{ $self->{active} }, $fault;
        return $fault;
    }
    return;
}

sub fill {
    my ($self) = @_;
    my $of = $OF{ $self->{phase} };
    my @new = map { ($_) x $of->{$_}[0] } sort keys %$of;
    for my $i (reverse 1 .. $#new) {
        my $j = int $self->rand * ($i + 1);
        @new[$i, $j] = @new[$j, $i];
    }
    push @{ $self->{bag} }, @new;
}

sub fault {
    my ($self, $kind, $at) = @_;
    my (undef, $arguments, $min, $max) = @{ $OF{ $self->{phase} }{$kind} };
    my %fault = (at => $at, phase => $self->{phase}, kind => $kind,
        for => $max ? $self->between($min, $max) : 0);
    $fault{$_} = $self->argument($_) for split ' ', $arguments;
    return \%fault;
}

sub argument {
    my ($self, $name) = @_;
    return 1 + int $self->rand * NODES if $name eq 'node';
    return int $self->rand * WORKERS if $name eq 'worker';
    return 1 + int $self->rand * 3 if $name eq 'sentinel';
    return $self->pick([qw(one two fifty local fair auto)])
        if $name eq 'sem';
    # percent of the limit in the configuration, at least 1
    return $self->pick([20, 50, 80, 120]) if $name eq 'value';
    return $self->pick([qw(c2s s2c both)]) if $name eq 'dir';
    return $self->between(0.02, 0.25) if $name eq 'delay';
    return $self->pick([-3600, -60, 60, 3600]) if $name eq 'seconds';
    die "no argument $name";
}

sub traits {
    my ($self, $fault) = @_;
    return split ' ', $OF{ $fault->{phase} }{ $fault->{kind} }[4];
}

sub taken {
    my ($fault) = @_;
    return $TAKES{ $fault->{kind} } // "node $fault->{node}";
}

# Not two faults of one thing. Named exceptions of the limit are avoided: a new
# node that is the first to meet a Redis without state, and a new session that
# cannot reach it.
sub fits {
    my ($self, $fault) = @_;
    my %trait = map { $_ => 1 } $self->traits($fault);
    my $takes = taken($fault);
    for my $other (@{ $self->{active} }) {
        my $end = $other->{at} + $other->{for};
        my $its = taken($other);
        return 0 if $end + 0.5 > $fault->{at} && ($its eq $takes
            || "$its $takes" =~ /^(?:nodes node|node \d+ nodes)/);
        $trait{$_} |= $end + REST->{$_} > $fault->{at}
            for $self->traits($other);
    }
    return !($trait{loss} && $trait{fresh})
        && !($trait{loss} && $trait{cut} && $trait{session});
}

# One line, the same for "--list" and the report.
sub line {
    my ($fault) = @_;
    my %of = %$fault;
    delete @of{qw(id at phase kind)};
    delete $of{for} unless $of{for};
    return sprintf '%4d %7.2f %-8s %-14s %s', @$fault{qw(id at phase kind)},
        join ' ', map { "$_=$of{$_}" } sort keys %of;
}

1;
