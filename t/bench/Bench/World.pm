package Bench::World;

# A database with the sessions and semaphores of one edition, created by its own
# scripts: no key is written here. measure() says what the calls of a piece of
# code cost inside Redis. It makes them one by one, and reads the CPU time of
# Redis after each: on a busy machine the longest entry of the slow log is often
# an interruption of Redis, which uses no CPU time.
#
# Sessions have long leases and send no heartbeats of their own. The clock in
# Redis moves with hello, beat and bye only, so sessions that keep quiet become
# silent, or expire, exactly where a case calls age() and wake().
#
# Called by: Bench::Cycle, Bench::Crowd, Bench::Queue, Bench::Bytes,
# Bench::FairSync, fair.pl.

use strict;
use warnings;

use Carp qw(croak);
use List::Util qw(max min);

use Bench::Proc;
use Bench::Wire;
use Dsem::Wait qw(now wait_for);

use constant {
    LEASE => 3_600_000,     # ms; no session expires
    SHORT => 2_000,         # ms; sessions and bars that do
    QUEUE => 1_000_000,     # queue limit; tickets
    SETS_LIMIT => 1, REUSES => 2,   # flags
    AGE => 2.2,             # seconds; longer than SHORT
    PART => 0.5,            # of them, less than a heartbeat
    PERIOD => 30,           # seconds; a measurement is cut after them
    TURN => 20_000,         # calls that finish the work of one, at most
    SLOW => 500,            # us; faster calls have no entry in the slow log
    SLOW_ENTRIES => 20_000,
};

# to be given to the redis-server of the stage
sub redis_args {
    return '--databases', 64, '--slowlog-log-slower-than', SLOW,
        '--slowlog-max-len', SLOW_ENTRIES;
}

my @free = (1 .. 63);
my $clock;

# A Dsem::Clock for age().
sub settable { ($clock) = @_ }

# limit: of its semaphores; flags: of every sync
sub new {
    my ($class, $stage, $edition, %opt) = @_;
    my $self = bless {
        redis => $stage->redis, edition => $edition, limit => 1_000_000,
        flags => SETS_LIMIT, entered => 0, live => [], %opt,
        db => shift @free // croak 'no database left',
    }, $class;
    $self->{wire} = Bench::Wire->new($self->{redis}->unix, $self->{db});
    return $self;
}

sub edition { $_[0]{edition} }

sub end {
    my ($self) = @_;
    $self->{wire}->call(Bench::Wire::command('FLUSHDB'));
    push @free, delete $self->{db};
}

###########################################################################
# sessions

# Registers n sessions, without accounts.
sub enter {
    my ($self, $n, %arg) = @_;
    my @new = map {
        { name => name(++$self->{entered}), epoch => 1, lease => LEASE, %arg }
    } 1 .. $n;
    my $edition = $self->{edition};
    $self->send(map {
        $edition->hello($_, 0), $edition->declared($_)
    } @new);
    return @new;
}

# The same, and wake() keeps them from becoming silent.
sub enter_live {
    my ($self, $n) = @_;
    my @new = $self->enter($n);
    push @{ $self->{live} }, @new;
    return @new;
}

sub name { my ($n) = @_; return sprintf 'node:0:%016x', $n }

# Commands of a session that connects again; held: its permits of s0.
sub again {
    my ($self, $session, $held) = @_;
    my $edition = $self->{edition};
    $session->{epoch}++;
    return $edition->hello($session, $self->{entered}),
        $held ? $edition->declare($session, 's0', held => $held,
            limit => $self->{limit}) : (),
        $edition->declared($session);
}

sub wake {
    my ($self) = @_;
    $self->send(map { $self->{edition}->beat($_) } @{ $self->{live} });
}

# Until sessions that send nothing are silent, and short leases and bars have
# ended: waits, or moves the clock of the host of Redis, if that is settable. The
# live ones of these worlds send heartbeats meanwhile, as no session is silent
# after a leap of the clock. The next wake() moves the one in Redis.
sub age {
    my (@worlds) = @_;
    for (1 .. AGE / PART + 1) {
        my $end = now + PART;
        $clock ? $clock->step(PART)
            : wait_for { now >= $end } 60, 'sessions to become silent';
        $_->wake for @worlds;
    }
}

# For as long as one command may move the clock in Redis.
sub pass {
    return $clock->step(1) if $clock;
    my $end = now + SHORT / 4000;
    wait_for { now >= $end } 60, 'a part of a short lease';
}

###########################################################################
# calls

sub command {
    my ($self, $session, $name, %arg) = @_;
    return $self->{edition}->sync($session, $name,
        limit => $self->{limit}, flags => $self->{flags}, %arg);
}

# Tickets of weight 1 from number $from on, for acquire.
sub tickets {
    my ($from, $n, $queue) = @_;
    return [ map { [ $_, 1, 0, $queue // QUEUE ] } $from .. $from + $n - 1 ];
}

# Replies are checked and ignored. A pipeline, unless each call is measured.
sub send {
    my ($self, @commands) = @_;
    if ($self->{meter}) {
        $self->call($_) for @commands;
        return;
    }
    while (my @some = splice @commands, 0, Bench::Wire::AT_ONCE) {
        $self->{wire}->send(@some);
    }
}

sub call {
    my ($self, $command) = @_;
    my $meter = $self->{meter} or return $self->{wire}->call($command);
    croak 'more than ' . PERIOD . ' s' if now > $meter->{until};
    my $reply = eval { $self->{wire}->call($command) };
    my $failed = $@;
    $self->count;
    die $failed if $failed;
    return $reply;
}

# The CPU time of Redis since the last call.
sub count {
    my ($self) = @_;
    my $meter = $self->{meter};
    my $cpu = Bench::Proc::cpu_asleep($self->{redis}->pid) // return;
    $meter->{longest} = max($meter->{longest} // 0, $cpu - $meter->{cpu});
    $meter->{sum} += $cpu - $meter->{cpu};
    $meter->{cpu} = $cpu;
}

# One sync, as a hash.
sub sync {
    my ($self, $session, $name, %arg) = @_;
    my $reply = $self->call($self->command($session, $name, %arg));
    return $self->{edition}->decode($reply);
}

# One sync, and as many more as its reply asks for at once.
sub turn {
    my ($self, $session, $name, %arg) = @_;
    my $state = $self->sync($session, $name, %arg);
    for (1 .. TURN) {
        return $state if !$state->{more};
        $state = $self->sync($session, $name);
    }
    croak 'work is left after ' . TURN . ' calls';
}

# The checks of a waiting ticket, one a second in a worker, until its session
# holds so many permits. Returns their number.
sub polls {
    my ($self, $session, $name, $ticket, $held, $most) = @_;
    for my $n (1 .. $most) {
        my $state = $self->turn($session, $name, check => [ [$ticket, 1] ]);
        return $n if $state->{held} >= $held;
    }
    croak "no permit after $most checks";
}

###########################################################################
# measurements

# Runs the code. Returns the number of script calls; us: of all of them,
# longest: ms of one, both by Redis, or by its CPU time if that is less; value:
# of the code; failed: why it ended too early.
sub measure {
    my ($self, $code) = @_;
    my $redis = $self->{redis};
    $redis->cmd(qw(CONFIG RESETSTAT));
    $redis->cmd(qw(SLOWLOG RESET));
    local $self->{meter} = {
        until => now + PERIOD, cpu => Bench::Proc::cpu_asleep($redis->pid),
    };
    my $value;
    my $failed = eval { $value = $code->(); 1 } ? undef : $@;
    my ($longest, $cpu) = @{ $self->{meter} }{qw(longest sum)};
    my ($calls, $us) = $self->script_calls;
    return {
        calls => $calls, value => $value, failed => $failed,
        us => min($us, $cpu ? 1e6 * $cpu : ()),
        longest => min($self->slowest, $longest ? 1e3 * $longest : ()),
    };
}

# Number and microseconds of script calls since CONFIG RESETSTAT.
sub script_calls {
    my ($self) = @_;
    my ($calls, $us) = $self->{redis}->cmd('INFO', 'commandstats')
        =~ /^cmdstat_evalsha:calls=(\d+),usec=(\d+)/m;
    return ($calls // 0, $us // 0);
}

# The longest script call of the slow log, in ms.
sub slowest {
    my ($self) = @_;
    my $all = $self->{redis}->cmd(qw(SLOWLOG GET), SLOW_ENTRIES);
    return max(SLOW, map { $_->[2] } grep { lc $_->[3][0] eq 'evalsha' }
        @$all) / 1000;
}

# Bytes of these keys.
sub bytes {
    my ($self, @keys) = @_;
    my $sum = 0;
    $sum += $self->{wire}->call(Bench::Wire::command(qw(MEMORY USAGE), $_,
        qw(SAMPLES 0))) // 0 for @keys;
    return $sum;
}

1;
