package Bench::World;

# A database with a number of sessions and semaphores, created by the real
# scripts, and a cycle of syncs that can be repeated without end:
#
#   steady     each sync releases a batch of permits and acquires as many; the
#              semaphore is never empty
#   alone      a batch is acquired, and released by the next sync: the semaphore
#              is created and deleted each time
#   contended  as steady, but all permits are held, and released ones are
#              granted to the head of the queue, in another session
#   recalled   the one permit is idle in a session and recalled for another,
#              which uses it twice and keeps it
#   empty      a script that does nothing, for comparison
#
# Called by: scale.pl.

use strict;
use warnings;

use Carp qw(croak);
use IO::Select;
use IO::Socket::UNIX;
use List::Util qw(max);
use POSIX qw(ceil);

use Bench::Proc;
use Bench::Wire;
use Dsem::Process;
use Dsem::Scripts;
use Dsem::Wait qw(wait_for);

# ms; no session may expire meanwhile
use constant LEASE => 3_600_000;

my $databases = 0;

# sessions, semaphores, batch, kind; and optionally registered (number of more
# sessions), known (number of more semaphores, with one permit), accounts
# (number of more sessions with a permit of the first semaphore), held (permits
# of each session above its batch), waiting (tickets)
sub new {
    my ($class, $stage, %spec) = @_;
    my $self = bless {
        kind => 'steady', sessions => 100, semaphores => 100, batch => 1,
        waiting => 0, registered => 0, known => 0, accounts => 0, held => 0,
        %spec, redis => $stage->redis, sha => {}, at => 0,
    }, $class;
    $self->{db} = $databases++;
    $self->{wire} = Bench::Wire->new($self->{redis}->unix, $self->{db});
    $self->{scripts} = Dsem::Scripts->new($stage);
    $self->{members} = [ $self->enter($self->{sessions}) ];
    $self->enter($self->{registered});
    my $cycle = $self->can($self->{kind}) // \&quiet;
    $self->{cycle} = [ $self->$cycle ];
    $self->add_passive;
    return $self;
}

sub batch { $_[0]{batch} }

sub call {
    my ($self, $script, $name, @argv) = @_;
    my $sha = $self->{sha}{$script} //= $self->{redis}->cmd(qw(SCRIPT LOAD),
        Dsem::Test->script($script));
    my @keys = $self->{scripts}->keys_of($script, $name);
    return Bench::Wire::command('EVALSHA', $sha, scalar @keys, @keys, @argv);
}

# Registers n sessions; returns their names.
sub enter {
    my ($self, $n) = @_;
    my @names = map { $self->{scripts}->session('node')->name } 1 .. $n;
    $self->{wire}->send(map {
        $self->call('hello', undef, $_, 1, 1, 0, 1, LEASE, 'f00', 0, 0,
            '-'),
        $self->call('declared', undef, $_, 1, 1)
    } @names);
    return @names;
}

# One sync command; acquires $asks tickets of weight 1, from number $ticket on.
sub sync {
    my ($self, $session, $name, $release, $ticket, $asks) = @_;
    my $limit = $self->{limit} // 1_000_000;
    return $self->call('sync', $name, $session, 1, 1, 1, $name, $limit,
        $self->{kind} eq 'recalled' ? 3 : 1, $release, 0, $asks, 0,
        map { $ticket + $_, 1, 0, 100_000 } 0 .. $asks - 1);
}

sub quiet {
    my ($self) = @_;
    my ($sessions, $semaphores, $batch)
        = @$self{qw(sessions semaphores batch)};
    my @pairs = map {
        [ $self->{members}[ $_ % $sessions ], 's' . $_ % $semaphores ]
    } 0 .. max($sessions, $semaphores) - 1;
    my $alone = $self->{kind} eq 'alone';
    $self->{wire}->send(map {
        $self->sync(@$_, 0, 1, $batch + $self->{held})
    } @pairs) unless $alone;
    return map {
        $alone ? ($self->sync(@$_, 0, 1, $batch),
            $self->sync(@$_, $batch, 1, 0))
            : $self->sync(@$_, $batch, 1, $batch)
    } @pairs;
}

# Step k is a sync of session k (modulo their number), and serves the tickets of
# step k - waiting, which is half a lap away. A ticket's number is used again
# long after the first one has been served.
sub contended {
    my ($self) = @_;
    my ($n, $batch, $waiting) = @$self{qw(sessions batch waiting)};
    croak 'waiting must be an odd number of half laps'
        if $waiting % $n != $n / 2;
    my $laps = ceil($waiting / $n) + 1;
    $self->{limit} = $n * $batch;
    my $step = sub {
        my ($k, $release) = @_;
        return $self->sync($self->{members}[ $k % $n ], 's0', $release,
            1 + $batch * (int($k / $n) % $laps), $batch);
    };
    $self->{wire}->send(map {
        $self->sync($_, 's0', 0, 900_000, $batch)
    } @{ $self->{members} });
    $self->{wire}->send(map { $step->($_, 0) } 0 .. $waiting - 1);
    return map { $step->($_, $batch) } $waiting .. $waiting + $n * $laps - 1;
}

# Each session acquires, its neighbour releases, and it acquires once more.
sub recalled {
    my ($self) = @_;
    my @members = @{ $self->{members} };
    $self->{limit} = 1;
    $self->{wire}->send($self->sync($members[-1], 's0', 0, 1, 1));
    return map {
        $self->sync($members[$_], 's0', 0, 1, 1),
        $self->sync($members[ $_ - 1 ], 's0', 1, 1, 0),
        $self->sync($members[$_], 's0', 1, 2, 1)
    } 0 .. $#members;
}

sub empty {
    my ($self) = @_;
    my $sha = $self->{redis}->cmd(qw(SCRIPT LOAD), 'return 1');
    return Bench::Wire::command('EVALSHA', $sha, 0);
}

# Semaphores and sessions that take no part in the cycle.
sub add_passive {
    my ($self) = @_;
    my ($one) = @{ $self->{members} };
    $self->{wire}->send(map { $self->sync($one, "k$_", 0, 1, 1) }
        1 .. $self->{known});
    $self->{wire}->send(map { $self->sync($_, 's0', 0, 1, 1) }
        $self->enter($self->{accounts}));
}

# Subscribes to the channels of n sessions, on 100 connections: a message
# without a subscriber would cost Redis less.
sub listen {
    my ($stage, $n) = @_;
    my $redis = $stage->redis;
    my $scripts = Dsem::Scripts->new($stage);
    my @channels = map { $scripts->session('node')->channel } 1 .. $n;
    my @socks = map {
        IO::Socket::UNIX->new(Peer => $redis->unix) // croak "subscribe: $!"
    } 1 .. 100;
    for my $i (0 .. $#channels) {
        syswrite $socks[ $i % @socks ],
            Bench::Wire::command('SUBSCRIBE', $channels[$i]);
    }
    Dsem::Process->spawn(name => 'listener', keep => \@socks,
        log => $stage->dir . '/listener.log', code => sub {
            my $all = IO::Select->new(@socks);
            while (my @ready = $all->can_read) {
                sysread $_, my $message, 1 << 16 or exit for @ready;
            }
        });
    wait_for {
        my %subscribers = @{ $redis->cmd(qw(PUBSUB NUMSUB), @channels) };
        $n == grep { $_ } values %subscribers;
    } 10, 'the listener';
}

# Runs n syncs; returns microseconds of script and of Redis' CPU time per sync.
sub measure {
    my ($self, $n) = @_;
    my $cycle = $self->{cycle};
    my @commands = map { $cycle->[ ($self->{at} + $_) % @$cycle ] }
        0 .. $n - 1;
    $self->{at} += $n;
    my $redis = $self->{redis};
    $redis->cmd(qw(CONFIG RESETSTAT));
    my $cpu = Bench::Proc::cpu($redis->pid);
    $self->{wire}->send(@commands);
    $cpu = Bench::Proc::cpu($redis->pid) - $cpu;
    my ($calls, $us) = $redis->cmd('INFO', 'commandstats')
        =~ /^cmdstat_evalsha:calls=(\d+),usec=(\d+)/m;
    croak "$calls syncs of $n" if $calls != $n;
    return { script => $us / $n, cpu => 1e6 * $cpu / $n };
}

# Permits held and tickets waiting of the first semaphore.
sub state {
    my ($self) = @_;
    my $redis = $self->{redis};
    $redis->cmd('SELECT', $self->{db});
    return split ' ', $self->{scripts}->state->counts('s0');
}

# Bytes of these keys, by MEMORY USAGE.
sub bytes {
    my ($self, @keys) = @_;
    my $redis = $self->{redis};
    $redis->cmd('SELECT', $self->{db});
    my $sum = 0;
    $sum += $redis->cmd(qw(MEMORY USAGE), $_, qw(SAMPLES 0)) // 0 for @keys;
    return $sum;
}

1;
