package Model::FairPlay;

# Plays: traffic of many keys under one limit with "fair=", in a time of its
# own. Workers that sync with the real scripts in a real Redis, requests that
# arrive, wait, hold permits and end by a list of events. One seed is one play.
#
# A worker does what ngx_module/ does with the times of requests: the cost of a
# ticket is the mean of its key, or of the semaphore, and where requests run
# longer than expected their key is charged (see ngx_http_dsem_fair.c). Replies
# and messages arrive at once.
#
# Figures: the permit time of each key, in parts of the limit, over any window.
#
# Called by: Model/FairWalk.pm, t/bench/Bench/FairPlays.pm, t/lua/fair_flood.t,
# fair_burst.t.

use warnings;
use strict;

use List::Util qw(max min sum0);

use Model::Client;

use constant {
    SEMAPHORE => 'play', SLOT => 100,   # ms of one figure
    MEASURED => 10, MEAN => 8,          # as in ngx_http_dsem_fair.c
    PERMITS => 1e3,                     # us of a ms, of one share
    BEHIND => 4, PREPAID => 64,
};

# scripts: a Dsem::Scripts; limit, queue, workers, timeout (ms), seed, fair
sub new {
    my ($class, $scripts, %arg) = @_;
    my $self = bless {
        limit => 10, queue => 100, workers => 4, timeout => 5000, seed => 1,
        fair => 1, charge => 1, now => 0, number => 0, events => [], order => 0,
        use => {}, seen => {}, waiting => 0, clock => 0, since => 0, %arg,
    }, $class;
    srand $self->{seed};
    my $redis = $scripts->redis;
    $redis->cmd('FLUSHDB');
    $self->{sessions} = [ map { $scripts->session("n$_")->enter }
        1 .. $self->{workers} ];
    $self->{client} = Model::Client->new($redis->unix);
    my $state = $scripts->state;
    $self->{keys} = [ $state->key, $state->semaphore_keys(SEMAPHORE),
        $self->{fair} ? $state->fair_keys(SEMAPHORE) : () ];
    $self->{sha} = $redis->cmd('SCRIPT', 'LOAD', $scripts->source('sync'));
    $self->{worker} = [ map { {
        session => $_, tickets => {}, keys => {}, mean => 0, asks => [],
        released => 0, waits => {},
    } } @{ $self->{sessions} } ];
    $self->{of}{ $_->{session}->name } = $_ for @{ $self->{worker} };
    return $self;
}

###########################################################################
# traffic

# Requests at random times. rate: per second; key: name, or code; ms: likewise;
# from, to: ms
sub open {
    my ($self, %arg) = @_;
    my $at = $arg{from} // 0;
    while (($at -= 1000 * log(1 - rand) / $arg{rate}) < $arg{to}) {
        my $when = $at;
        $self->at($when, sub { $self->request(%arg) });
    }
}

# So many clients, each of which sends the next request when the last one has
# ended, or a while after it was refused.
sub closed {
    my ($self, %arg) = @_;
    for (1 .. $arg{clients}) {
        my $again;
        $again = sub {
            my ($refused) = @_;
            return if $self->{now} >= $arg{to};
            $self->at($self->{now} + ($refused ? 10 + rand 20 : rand 0.1),
                sub { $self->request(%arg, then => $again) });
        };
        $self->at(($arg{from} // 0) + rand 20, sub { $again->(0) });
    }
}

# So many requests at once.
sub burst {
    my ($self, %arg) = @_;
    $self->at($arg{from}, sub {
        $self->request(%arg, later => 1) for 1 .. $arg{requests};
        $self->flush($_) for @{ $self->{worker} };
    });
}

###########################################################################
# events

sub at {
    my ($self, $time, $code) = @_;
    my $heap = $self->{events};
    push @$heap, [ $time, ++$self->{order}, $code ];
    my $i = $#$heap;
    while ($i) {
        my $up = ($i - 1) >> 1;
        last if before($heap->[$up], $heap->[$i]);
        @$heap[$up, $i] = @$heap[$i, $up];
        $i = $up;
    }
}

sub before { $_[0][0] < $_[1][0] || $_[0][0] == $_[1][0] && $_[0][1] < $_[1][1] }

sub next_event {
    my ($self) = @_;
    my $heap = $self->{events};
    my $first = $heap->[0] or return;
    my $last = pop @$heap;
    return $first if !@$heap;
    $heap->[0] = $last;
    my $i = 0;
    while ((my $down = 2 * $i + 1) < @$heap) {
        $down++ if $down + 1 < @$heap
            && before($heap->[ $down + 1 ], $heap->[$down]);
        last if before($heap->[$i], $heap->[$down]);
        @$heap[$down, $i] = @$heap[$i, $down];
        $i = $down;
    }
    return $first;
}

# Until this time, ms.
sub run {
    my ($self, $until) = @_;
    while (my $event = $self->next_event) {
        if ($event->[0] > $until) {
            $self->at($event->[0], $event->[2]);
            last;
        }
        $self->{now} = $event->[0];
        $event->[2]->();
    }
    $self->{now} = $until;
    $self->used($_, $until) for values %{ $self->{held} };
    return $self;
}

###########################################################################
# requests

sub value { ref $_[0] ? $_[0]->() : $_[0] }

sub request {
    my ($self, %arg) = @_;
    my $worker = $arg{worker} // $self->{worker}[ rand @{ $self->{worker} } ];
    my $name = value($arg{key});
    my $key = $worker->{keys}{$name} //= { measured => 0, mean => 0,
        balance => 0, in_use => 0, since => 0, expected => 0, waiting => 0,
        rate => PERMITS / ($arg{share} // 1) };
    my $ticket = {
        number => ++$self->{number}, name => $name, key => $key,
        ms => value($arg{ms}), then => $arg{then}, worker => $worker,
        group => $arg{group} // $name, asked => $self->{now},
    };
    my $mean = $key->{mean} || $worker->{mean};
    $key->{cost} = $ticket->{cost} = int(max(1, $mean) * $key->{rate});
    $worker->{tickets}{ $ticket->{number} } = $ticket;
    $key->{waiting}++;
    push @{ $worker->{asks} }, $ticket;
    push @{ $self->{came} }, [ $self->{now}, $name, $ticket->{ms} ];
    $self->seen($ticket, 'sent');
    $self->flush($worker) if !$arg{later};
    $self->at($self->{now} + $self->{timeout}, sub {
        $self->cancel($ticket) if $worker->{tickets}{ $ticket->{number} }
            && !defined $ticket->{start};
    }) if $worker->{tickets}{ $ticket->{number} } && !defined $ticket->{start};
    return $ticket;
}

sub cancel {
    my ($self, $ticket) = @_;
    push @{ $ticket->{worker}{cancels} }, $ticket;
    $self->flush($ticket->{worker});
}

sub seen {
    my ($self, $ticket, $what) = @_;
    my $group = $ticket->{group};
    $self->{seen}{$group}{$what}++;
    push @{ $self->{log}{$group}{$what} }, $self->{now};
}

sub granted {
    my ($self, $worker, $number, $limit) = @_;
    my $ticket = $worker->{tickets}{$number} or return;
    my $key = $ticket->{key};
    $ticket->{start} = $self->{now};
    $self->seen($ticket, 'served');
    push @{ $self->{waits}{ $ticket->{group} } },
        $self->{now} - $ticket->{asked};
    $key->{waiting}--;
    $key->{in_use}++;
    $key->{since} += $ticket->{began} = $self->clock;
    $key->{expected} += $ticket->{cost};
    $self->{held}{$number} = $ticket;
    $self->at($self->{now} + $ticket->{ms}, sub { $self->release($ticket) });
    $self->watch($worker) if $self->{fair} && $self->{charge};
}

sub used {
    my ($self, $ticket, $until) = @_;
    my ($from, $name) = ($ticket->{start}, $ticket->{group});
    $from = $ticket->{counted} // $from;
    $ticket->{counted} = $until;
    while ($from < $until) {
        my $slot = int $from / SLOT;
        my $end = min($until, SLOT * ($slot + 1));
        $self->{use}{$name}[$slot] += $end - $from;
        $from = $end;
    }
}

sub release {
    my ($self, $ticket) = @_;
    my ($worker, $key) = @$ticket{qw(worker key)};
    my $time = $self->{now} - $ticket->{start};
    $self->used($ticket, $self->{now});
    delete $self->{held}{ $ticket->{number} };
    delete $worker->{tickets}{ $ticket->{number} };
    $key->{in_use}--;
    $key->{since} -= $ticket->{began};
    $key->{expected} -= $ticket->{cost};
    my $over = ($self->clock - $ticket->{began}) * $key->{rate}
        - $ticket->{cost};
    $over = max($over, 0) if !$ticket->{queued};
    $key->{balance} = max($key->{balance} + $over, -PREPAID * $key->{cost});
    $self->measure($worker, $key, $time);
    $worker->{released}++;
    $self->flush($worker);
    $ticket->{then}->(0) if $ticket->{then};
}

sub measure {
    my ($self, $worker, $key, $time) = @_;
    if (!$key->{measured} && $worker->{mean}) {
        $key->{mean} = $worker->{mean};
        $key->{measured} = 1;
    }
    $key->{measured}++ if $key->{measured} < MEASURED;
    $key->{mean} += ($time - $key->{mean}) / $key->{measured};
    $worker->{mean} = $worker->{mean}
        ? $worker->{mean} + ($time - $worker->{mean}) / MEAN : $time;
}

sub refused {
    my ($self, $worker, $number, $how) = @_;
    my $ticket = delete $worker->{tickets}{$number} or return;
    $ticket->{key}{waiting}--;
    $self->seen($ticket, $how);
    $ticket->{then}->(1) if $ticket->{then};
}

###########################################################################
# charges: what the requests of a key take beyond what they were expected to

# ms in which tickets have waited: other time costs nothing
sub clock {
    my ($self) = @_;
    return $self->{clock} + ($self->{waiting}
        ? $self->{now} - $self->{since} : 0);
}

# By a reply.
sub contend {
    my ($self, $waiting) = @_;
    my $contended = $self->{waiting};
    $self->{clock} = $self->clock;
    @$self{qw(since waiting)} = ($self->{now}, $waiting);
    return $waiting && !$contended;
}

# us that its running requests have used beyond their costs
sub over {
    my ($self, $key) = @_;
    return ($key->{in_use} * $self->clock - $key->{since}) * $key->{rate}
        - $key->{expected};
}

# What that may be.
sub bound {
    my ($key) = @_;
    my $bound = $key->{cost} * (BEHIND + $key->{in_use});
    return max($bound - $key->{balance}, -$key->{balance} * 4 / 3);
}

# Charges keys that owe too much, and looks again when one may.
sub watch {
    my ($self, $worker) = @_;
    return if !$self->{waiting};
    my $next;
    for my $name (sort keys %{ $worker->{keys} }) {
        my $key = $worker->{keys}{$name};
        my $over = $self->over($key);
        if (max($over, 0) >= bound($key)) {
            my $owed = int $key->{balance} + max($over, 0);
            push @{ $worker->{charges} }, [ $name, $owed ] if $owed > 0;
            $key->{balance} -= $owed;
        }
        delete $worker->{keys}{$name} if !$key->{in_use} && !$key->{waiting}
            && $key->{measured} < 2;
        next if !$key->{in_use};
        my $ms = max(4, (bound($key) - $over) / $key->{rate} / $key->{in_use}
            + 1);
        $next = $ms if !defined $next || $ms < $next;
    }
    $self->flush($worker) if @{ $worker->{charges} // [] };
    return if !defined $next;
    my $time = $self->{now} + $next;
    return if defined $worker->{watch} && $worker->{watch} <= $time
        && $worker->{watch} > $self->{now};
    $worker->{watch} = $time;
    $self->at($time, sub { $self->watch($worker)
        if $worker->{watch} == $time });
}

###########################################################################
# Redis

sub flush {
    my ($self, $worker) = @_;
    return if $worker->{busy};
    local $worker->{busy} = 1;
    while (@{ $worker->{asks} } || $worker->{released}
        || @{ $worker->{cancels} // [] } || @{ $worker->{charges} // [] })
    {
        $self->sync($worker);
    }
}

sub sync {
    my ($self, $worker) = @_;
    my @asks = splice @{ $worker->{asks} }, 0, 32;
    my @cancels = splice @{ $worker->{cancels} //= [] };
    my @charges = splice @{ $worker->{charges} //= [] };
    my $released = $worker->{released};
    $worker->{released} = 0;
    my $session = $worker->{session};
    my ($fair, $queue) = @$self{qw(fair queue)};
    my @argv = ($session->name, join(' ', $session->epoch, 1, $session->gen,
        $self->{limit}, 1, $released, scalar @cancels, @asks + @charges, 0),
        SEMAPHORE,
        (map { join ' ', $_->{number}, 1, $fair ? ($_->{cost},
            $_->{limit} // 0, $_->{name}) : () } @cancels),
        (map { "0 1 0 0 $_->[1] $_->[0]" } @charges),
        (map { join ' ', $_->{number}, 1, 0, $queue, $fair
            ? ($_->{cost}, $_->{name}) : () } @asks));
    my $client = $self->{client};
    my $reply = $client->cmd('EVALSHA', $self->{sha}, scalar @{ $self->{keys} },
        @{ $self->{keys} }, @argv);
    $self->{calls}++;
    die "sync: status $reply->[3] at $self->{now}: @argv\n" if $reply->[3];
    my $begins = $self->contend($reply->[6]);
    $self->read_reply($worker, \@cancels, \@asks, scalar @charges,
        @$reply[12 .. $#$reply]);
    $self->read_message(@$_) for $client->pushed;
    if ($begins && $self->{fair} && $self->{charge}) {
        $self->watch($_) for @{ $self->{worker} };
    }
    die "work is left\n" if $reply->[11] && ++$self->{left} > 1e5;
    $self->sync($worker) if $reply->[11];
}

sub read_reply {
    my ($self, $worker, $cancels, $asks, $charges, @rest) = @_;
    for my $ticket (@$cancels) {
        $self->refused($worker, $ticket->{number}, 'timeout') if shift @rest;
    }
    splice @rest, 0, 3 * $charges;
    for my $ticket (@$asks) {
        my ($verdict) = splice @rest, 0, 3;
        $ticket->{limit} = $self->{limit};
        $ticket->{queued} = $verdict == 2;
        $self->granted($worker, $ticket->{number}) if $verdict == 1;
        $self->refused($worker, $ticket->{number}, 'rejected') if !$verdict;
    }
    for (@rest) {
        $_ > 0 ? $self->granted($worker, $_)
            : $self->refused($worker, -$_, 'dropped');
    }
}

sub read_message {
    my ($self, $channel, $text) = @_;
    my $worker = $self->{of}{ $channel =~ s/^.*?:c://r } or return;
    my (undef, $kind, undef, undef, undef, undef, @tickets) = split / /, $text;
    if ($kind eq 'grant') {
        $self->granted($worker, $_) for @tickets;
    } elsif ($kind eq 'drop') {
        # the next sync tells which
        $self->at($self->{now}, sub { $self->sync($worker) });
    }
}

###########################################################################
# figures

# Permit time of a group in this span, as a part of all.
sub share {
    my ($self, $group, $from, $to) = @_;
    my $use = $self->{use}{$group} // [];
    return sum0(map { $_ // 0 } @$use[ $from / SLOT .. $to / SLOT - 1 ])
        / ($to - $from) / $self->{limit};
}

# The least share in any window of so many ms.
sub least {
    my ($self, $group, $window, $from, $to) = @_;
    return min(map { $self->share($group, SLOT * $_, SLOT * $_ + $window) }
        $from / SLOT .. ($to - $window) / SLOT);
}

# Requests in this span, by what became of them.
sub counts {
    my ($self, $group, $from, $to) = @_;
    my $log = $self->{log}{$group} // {};
    return map { my $what = $_; $what => scalar grep {
        $_ >= $from && $_ < $to } @{ $log->{$what} } } keys %$log;
}

1;
