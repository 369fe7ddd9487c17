package Bench::Cycle;

# Cycles of syncs that can be repeated without end, for the mean cost of one:
#
#   quiet      each sync releases a batch of permits and acquires as many; the
#              semaphore is never empty
#   contended  limit 10, 30 tickets wait, 4 sessions: each sync releases a
#              permit, which goes to the head of the queue in another session,
#              and acquires one, which waits
#   empty      a script that does nothing, to compare machines
#
# Called by: scale.pl.

use strict;
use warnings;

use Carp qw(croak);
use List::Util qw(max);
use POSIX qw(ceil);

use Bench::Proc;
use Bench::Wire;
use Bench::World;

use constant {
    PAIRS => 100, LIMIT => 10, WAITING => 30, MEMBERS => 4,
    CALLS => 1000,          # of a round with batches of 1
};

# kind, batch
sub new {
    my ($class, $stage, $edition, %spec) = @_;
    my $self = bless { at => 0, batch => 1, %spec }, $class;
    $self->{world} = Bench::World->new($stage, $edition,
        $spec{kind} eq 'contended' ? (limit => LIMIT) : ());
    my $cycle = $self->can($spec{kind});
    $self->{cycle} = [ $self->$cycle ];
    return $self;
}

sub world { $_[0]{world} }

# 100 sessions with a semaphore each.
sub quiet {
    my ($self) = @_;
    my ($world, $batch) = @$self{qw(world batch)};
    my @members = $world->enter(PAIRS);
    my $acquire = Bench::World::tickets(1, $batch);
    $world->send(map {
        $world->command($members[$_], "s$_", acquire => $acquire)
    } 0 .. $#members);
    return map {
        $world->command($members[$_], "s$_", release => $batch,
            acquire => $acquire)
    } 0 .. $#members;
}

# Step k is a sync of session k, and serves the ticket of step k - 30, half a
# lap away, so a session has a permit to release at each step. The number of a
# ticket is used again long after the first one has been served.
sub contended {
    my ($self) = @_;
    my $world = $self->{world};
    my @members = $world->enter(MEMBERS);
    my $laps = ceil(WAITING / MEMBERS) + 1;
    my $step = sub {
        my ($k, $release) = @_;
        return $world->command($members[ $k % MEMBERS ], 's0',
            release => $release,
            acquire => Bench::World::tickets(1 + int($k / MEMBERS) % $laps, 1));
    };
    $world->send(map {
        $world->command($members[ $_ % MEMBERS ], 's0',
            acquire => Bench::World::tickets(900_000 + $_, 1))
    } 0 .. LIMIT - 1);
    $world->send(map { $step->($_, 0) } 0 .. WAITING - 1);
    return map { $step->($_, 1) } WAITING .. WAITING + MEMBERS * $laps - 1;
}

sub empty {
    my ($self) = @_;
    my $sha = $self->{world}{redis}->cmd(qw(SCRIPT LOAD), 'return 1');
    return Bench::Wire::command('EVALSHA', $sha, 0);
}

# Permits and tickets of the semaphore as its next sync would see them: the
# sync of a session that wants nothing.
sub state {
    my ($self) = @_;
    my $world = $self->{world};
    $self->{looker} //= ($world->enter(1))[0];
    my $state = $world->sync($self->{looker}, 's0');
    return @$state{qw(in_use waiting)};
}

# Runs a round; returns microseconds of script and of CPU time per call.
sub measure {
    my ($self, $scale) = @_;
    my ($cycle, $world) = @$self{qw(cycle world)};
    my $n = int max(100, CALLS * $scale / $self->{batch} ** 0.5);
    my @commands = map { $cycle->[ ($self->{at} + $_) % @$cycle ] } 0 .. $n - 1;
    $self->{at} += $n;
    my $redis = $world->{redis};
    $redis->cmd(qw(CONFIG RESETSTAT));
    my $cpu = Bench::Proc::cpu($redis->pid);
    $world->send(@commands);
    $cpu = Bench::Proc::cpu($redis->pid) - $cpu;
    my ($calls, $us) = $world->script_calls;
    croak "$calls calls of $n" if $calls != $n;
    return { us => $us / $n, cpu => 1e6 * $cpu / $n };
}

1;
