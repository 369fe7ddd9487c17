package Model::Worker;

# One nginx worker as the protocol knows it: its state, the commands that it
# sends, and its handling of replies and messages.
#
#   used        name -> ticket -> weight: requests that run upstream
#   wait        name -> ticket -> weight, place (0: unknown), epoch of the ask
#               (0: not sent)
#   gone        name -> ticket -> weight: request aborted, cancel not replied
#   idle        name -> weight, kept for the next request
#   may_keep    name -> 1: permits may be kept
#   reuse_sent  name -> reuse flag of the last sync
#   told        number of sessions in the last answered hello or beat (0: none
#               was answered), and the time when it was sent: at first of one
#               of its node
#   todo        name -> release, cancel, ask: for the next sync; late: the part
#               of release from cancels that came too late
#   longest     lease of the fleet, as far as it knows
#   clock       of Redis, in that reply; 0: there was none
#   config      id of its configuration, "c" and its limit; "-": it drains
#   limit       its limit
#   conn        commands not executed, replies not read; undef: not connected
#   synced      name -> 1: declared in this epoch
#   reported    name -> weight that Redis certainly counts for this worker
#               while it is not declared
#   sent        name -> weight of releases that were sent and not answered
#   pause       name -> time until which the state recovers: nothing is asked
#               or released
#   own_fence   time until which own permits are certain
#   key         ticket -> [cost, key], in walks with fair shares
#   over        name -> 1: other sessions may have been granted what this worker
#               holds, and the limit may be exceeded
#
# Own permits: those that Redis counts for this worker and no request holds.
# They are its unsent releases, before a declaration the rest of "reported".
# They serve its next request while it is not declared, the state recovers, or
# a reply is late. The walk's "broken" names a rule that is not kept:
#   fence       no own permit is used after the fence
#   sent        a release that was sent is no own permit
#   plain       at a hello to a state that does not recover own permits are void
#   undeclared  at one to a state that recovers they are declared with the rest
#   expired     if the lease may have expired before the hello they are void
#   counted     or the fence has passed, and Redis has not counted them all the
#               time (the same state of the same process, the session in it)
#   over        and none is passed on until a reply shows that the limit is kept
#   declared    a hello to a state that recovers does not move the fence: Redis
#               counts nothing for this worker before "declared"
#   served      permits may be free beside tickets: a sync is sent when all is
#               declared, a recovery ends, a beat was late, or a connection
#               was lost with grants or releases on their way
#   late        a cancel that came too late leaves no own permit: if the queue
#               was lost there may be none

use warnings;
use strict;

use List::Util qw/max min sum0/;

my $LATE = 300;             # ms without a reply

sub new {
    my ($class, $walk, %arg) = @_;
    my $self = bless {
        walk => $walk, gen => 0, term => 0, byes => [], epoch => 0, number => 0,
        ready => 0, fence => -1, own_fence => -1, stopped => 0, tickets => 0,
        beaten => 0, looked => 0, told => 0, told_at => 0, clock => 0,
        used => {}, wait => {},
        limit => $walk->{limit}, config => "c$walk->{limit}", entered => 0,
        recovery => 0, undeclared => [], declares => 0, new_state => 0,
        run => '', known_run => '', lease => $walk->{lease}, %arg,
    }, $class;
    $self->{longest} //= $self->{lease};
    for my $name (@{ $walk->{names} }) {
        $self->{used}{$name} = {};
        $self->{wait}{$name} = {};
        $self->{reported}{$name} = $self->{over}{$name} = 0;
    }
    $self->forget;
    return $self;
}

# It is ready, and only heartbeats are to come.
sub settled {
    my ($self) = @_;
    my $conn = $self->{conn} or return 0;
    return 0 if !$self->{ready} || $self->{stopped} > $self->{walk}{now}
        || $self->{recovery} || @{ $self->{byes} }
        || @{ $conn->{commands} } || @{ $conn->{replies} };
    for my $name (@{ $self->{walk}{names} }) {
        my $todo = $self->{todo}{$name};
        return 0 if %{ $self->{wait}{$name} } || %{ $self->{used}{$name} }
            || %{ $self->{gone}{$name} } || @{ $todo->{cancel} }
            || @{ $todo->{ask} } || $self->{idle}{$name}
            || $self->releasable($name) || $self->{sent}{$name}
            || $self->{flying}{$name} || $self->{over}{$name};
    }
    return 1;
}

# Resets the state that ends with an epoch or a connection.
sub forget {
    my ($self) = @_;
    $self->{ready} = 0;
    for my $name (@{ $self->{walk}{names} }) {
        if ($self->{synced}{$name}) {
            $self->{reported}{$name} = $self->counted($name)
                - $self->{todo}{$name}{late};
            $self->{reported}{$name} += $self->{sent}{$name}
                if $self->broken('sent');
        }
        $self->{synced}{$name} = 0;
        $self->{sent}{$name} = 0;
        $self->{pause}{$name} = 0;
        my $wait = $self->{wait}{$name};
        # releases may be lost, and grants
        $self->{refresh}{$name} = 1 if !$self->broken('served')
            && ($self->{flying}{$name} || $self->{todo}{$name}{late}
                || %{ $self->{gone}{$name} // {} } || grep { $_->{epoch} }
                    values %$wait);
        $self->{todo}{$name} = { release => 0, late => 0, cancel => [],
            ask => [ grep { !$wait->{$_}{epoch} } $self->waiting($name) ] };
        $self->{gone}{$name} = {};
        $self->{flying}{$name} = 0;
        $self->{look}{$name} = 0;
        $self->{idle}{$name} = 0;
        $self->{reuse_sent}{$name} = 0;
        $self->{may_keep}{$name} = 1;
    }
}

sub pick { return $_[ int rand @_ ] }

sub broken { return $_[0]{walk}{broken} eq $_[1] }

sub held {
    my ($self, $name) = @_;
    return sum0 values %{ $self->{used}{$name} };
}

# What Redis counts, but for releases that were sent.
sub counted {
    my ($self, $name) = @_;
    return $self->held($name) + $self->{idle}{$name}
        + $self->{todo}{$name}{release};
}

sub fenced {
    my ($self) = @_;
    return $self->{walk}{now} >= $self->{fence};
}

sub own_fenced {
    my ($self) = @_;
    return $self->{walk}{now} >= $self->{own_fence};
}

# Own permits that no request holds.
sub own {
    my ($self, $name) = @_;
    return 0 if $self->own_fenced && !$self->broken('fence');
    return 0 if $self->{over}{$name} && !$self->broken('over');
    my $todo = $self->{todo}{$name};
    return $todo->{release} - $todo->{late} if $self->{synced}{$name};
    return max(0, $self->{reported}{$name} - $self->held($name));
}

sub paused {
    my ($self, $name) = @_;
    return $self->{walk}{now} < $self->{pause}{$name};
}

# A reply is late.
sub late {
    my ($self) = @_;
    my $conn = $self->{conn} or return 0;
    my $reply = $conn->{replies}[0];
    my $oldest = $reply ? $reply->[0] : $conn->{commands}[0];
    return $oldest && $oldest->{at} + $LATE <= $self->{walk}{now};
}

# Own permits pass to the next requests: class, then age. One with a place in
# the queue leaves it.
sub serve {
    my ($self, $name) = @_;
    my $wait = $self->{wait}{$name};
    while (my $own = $self->own($name)) {
        my ($ticket) = sort {
            $wait->{$a}{class} <=> $wait->{$b}{class} || $a <=> $b
        } keys %$wait or return;
        my $weight = $wait->{$ticket}{weight};
        return if $weight > $own;
        $self->leave($name, $ticket);
        $self->{todo}{$name}{release} -= $weight if $self->{synced}{$name};
        $self->{used}{$name}{ ++$self->{tickets} } = $weight;
        $self->{walk}->served($self, $name, $self->{tickets});
    }
}

sub waiting {
    my ($self, $name) = @_;
    return sort { $a <=> $b } keys %{ $self->{wait}{$name} };
}

sub send {
    my ($self, $script, $name, $argv, $payload) = @_;
    my $number = ++$self->{number};
    push @{ $self->{conn}{commands} }, {
        script => $script, name => $name, number => $number,
        epoch => $self->{epoch}, at => $self->{walk}{now}, payload => $payload,
        argv => [ $self->{name}, $script =~ /^(sync|adjust)$/
            ? ("$self->{epoch} $number $argv->[0]", @$argv[1 .. $#$argv])
            : ($self->{epoch}, $number, @{ $argv // [] }) ],
    };
}

# Begins an epoch; when it is answered the absolute state is declared.
sub hello {
    my ($self) = @_;
    my $walk = $self->{walk};
    $self->{epoch}++;
    $self->forget;
    $self->{conn} //= { commands => [], replies => [] };
    $self->send('bye', undef, [ $_, $self->{lease} ], $_)
        for @{ $self->{byes} };
    $self->send('hello', undef,
        [ $self->{gen}, 1 + int rand 2 ** 40, $self->{lease}, $self->{told},
            $walk->{now} - $self->{told_at},
            $self->{config}, $self->seal, 1, $self->{term}, $self->{longest},
            $self->{clock} ],
        $self->{config});
}

# Of the messages of this epoch.
sub seal { return sprintf '%08x%08x', $_[0]{name} =~ /(\d+)/, $_[0]{epoch} }

sub hello_reply {
    my ($self, $command, @rest) = @_;
    my ($gen, $told, $recovery, $registered, $unknown, $run, $term, $longest,
        $clock) = @rest;
    $self->{run} = $run;
    my $lost = $self->{gen} && $self->{gen} != $gen;
    # registered 2: the state is older than this session, and recovers
    my $counted = $self->counts($gen, $registered)
        || $self->broken('counted');
    $self->expired if !$counted && ($self->own_fenced
        || $self->{entered} && !$lost && !$registered || $lost && !$recovery);
    $self->{entered} = 1;
    @$self{qw/gen term/} = ($gen, $term);
    $self->renew($command, max($told, 0), $recovery, $longest, $clock);
    $self->{new_state} = $recovery && !$counted;
    $self->{own_fence} = $self->{fence}
        if !$self->{new_state} || $self->broken('declared');
    $self->state($command->{payload}) if $unknown;
    $self->{declares} = 0;
    $self->{undeclared} = [ @{ $self->{walk}{names} } ];
    $self->declare;
}

# Whether Redis has counted what this worker has all the time.
sub counts {
    my ($self, $gen, $registered) = @_;
    my $walk = $self->{walk};
    return $registered == 1 && $gen == $self->{gen} && !$self->{new_state}
        && $self->{run} eq $self->{known_run}
        && $walk->{now} - $self->{told_at} < $self->{lease};
}

# Others may have been granted what this worker has.
sub expired {
    my ($self) = @_;
    return if $self->broken('expired');
    for my $name (@{ $self->{walk}{names} }) {
        $self->{reported}{$name} = 0;
        $self->{over}{$name} = 1;
    }
}

# A hello or a beat was answered.
sub renew {
    my ($self, $command, $told, $recovery, $longest, $clock) = @_;
    @$self{qw/longest clock/} = ($longest, $clock);
    # R3: fence
    $self->{fence} = $command->{at} + 0.75 * $self->{lease};
    @$self{qw/told told_at/} = ($told, $command->{at});
    $self->{walk}->told($self, $command);
    $self->recovery($recovery);
}

# So many ms until the state has recovered.
sub recovery {
    my ($self, $left) = @_;
    my $ended = $self->{recovery} && !$left;
    $self->{recovery} = $left;
    for (values %{ $self->{pause} }) {
        $_ = $left ? $self->{walk}{now} + $left + 1 : 0;
    }
    $self->ask_at_once if $ended;
}

# Permits may be free beside its tickets, which no other command serves.
sub ask_at_once {
    my ($self) = @_;
    return if $self->{recovery} || $self->broken('served');
    for my $name (@{ $self->{walk}{names} }) {
        $self->{refresh}{$name} = 1
            if grep { $_->{epoch} } values %{ $self->{wait}{$name} };
    }
}

# Declares all names, one or more at a time. Own permits that no request holds
# are declared with the rest while the state recovers, otherwise they end.
sub declare {
    my ($self) = @_;
    while (@{ $self->{undeclared} }
        && (!$self->{declares} || rand() < 0.5))
    {
        my $name = shift @{ $self->{undeclared} };
        my $own = $self->own($name);
        my $held = $self->held($name);
        $held += $own if $self->{recovery} && !$self->broken('undeclared');
        # a worker may also ask too early
        $self->{pause}{$name} = $self->{walk}{now} + (rand() < 0.2
            ? int rand $self->{recovery} : $self->{recovery} + 1)
            if $self->{recovery};
        $self->{todo}{$name}{release} =
            $self->{recovery} || $self->broken('plain') ? $own : 0;
        $self->{refresh}{$name} = 1
            if $self->{reported}{$name} > $held && !$self->broken('served');
        $self->{reported}{$name} = 0;
        $self->{synced}{$name} = 1;
        $self->declare_one($name, $held);
    }
    $self->send('declared')
        if !@{ $self->{undeclared} } && !$self->{declares};
}

sub declare_one {
    my ($self, $name, $held) = @_;
    my $wait = $self->{wait}{$name};
    my @tickets = grep { $wait->{$_}{epoch} } $self->waiting($name);
    return unless $held || @tickets;
    $self->{declares}++;
    $self->send('declare', $name, [ $self->{limit}, $held, 0,
        scalar @tickets,
        map { ($_, @{ $wait->{$_} }{qw/weight place epoch/},
            !$self->{fair} ? () : join(' ', $self->key($_)) || '-') }
            @tickets ], \@tickets);
}

# Another configuration: by a reload, in a new epoch; "-": its worker exits.
sub reload {
    my ($self, $config) = @_;
    $self->{config} = $config;
    $self->{limit} = $1 if $config =~ /^c(\d)/;
    return unless $self->{conn};
    return $self->hello if $config ne '-';
    $self->send('configure', undef, ['-']);
}

sub beat {
    my ($self) = @_;
    $self->{beaten} = $self->{walk}{now};
    $self->send('beat', undef, [ $self->{gen}, $self->{lease}, '' ]);
}

# A sample of limit=auto, with anything in it.
sub adjust {
    my ($self, $name) = @_;
    my $walk = $self->{walk};
    return if $self->{config} ne "c$walk->{limit}";
    my $window = $walk->{now} - ($self->{adjusted} // 0);
    $self->{adjusted} = $walk->{now};
    my $count = pick(0, 1, 9, 100, 500);
    my $errors = pick((0) x 9, int $count / 2);
    my $ms = pick(20, 50, 50, 50, 50, 50, 400);
    $self->send('adjust', $name, [ "$self->{gen} 1 $walk->{limit} 0", $name,
        join ' ', $count, ($count - $errors) * $ms * 1000, $errors,
        pick(0, $walk->{limit}), $window,
        map({ int(1000 * ($count - $errors) * log($ms * 1000) ** $_) } 1, 2),
        (int(10_000 * log($ms * 1000))) x 2, pick(1000, 1000, 1500) ]);
}

# A request arrives (come), is aborted while it waits (leave), ends (finish).
sub come {
    my ($self, $name, $weight, $class) = @_;
    my $ticket = ++$self->{tickets};
    if ($self->{idle}{$name} >= $weight && !$self->waiting($name)
        && $self->{ready} && !$self->fenced)
    {
        $self->{idle}{$name} -= $weight;
        $self->{used}{$name}{$ticket} = $weight;
        $self->{walk}->served($self, $name, $ticket);
        return $ticket;
    }
    $self->give_back($name);
    $self->{wait}{$name}{$ticket} =
        { weight => $weight, class => $class, place => 0, epoch => 0 };
    $self->{key}{$ticket} = [ 1 + int 10 ** rand 7, pick(qw/a b c d e/) ]
        if $self->{fair} && rand() < 0.9;
    push @{ $self->{todo}{$name}{ask} }, $ticket;
    return $ticket;
}

# Cost and key of a ticket, if it has one: some locations have no fair=.
sub key { return @{ $_[0]{key}{ $_[1] } // [] } }

# The same of a ticket that is cancelled or checked, with the limit at which it
# was queued, or without.
sub paid {
    my ($self, $ticket) = @_;
    my ($cost, $key) = $self->key($ticket) or return;
    return $cost, $ticket % 2 * $self->{limit}, $key;
}

sub leave {
    my ($self, $name, $ticket) = @_;
    my $wait = delete $self->{wait}{$name}{$ticket};
    my $todo = $self->{todo}{$name};
    if (!$wait->{epoch} || !$self->{synced}{$name}) {
        # Redis does not know it, or its place ends with the epoch
        $todo->{ask} = [ grep { $_ != $ticket } @{ $todo->{ask} } ];
        return;
    }
    $self->{gone}{$name}{$ticket} = $wait->{weight};
    push @{ $todo->{cancel} }, $ticket;
}

sub finish {
    my ($self, $name, $ticket) = @_;
    my $weight = delete $self->{used}{$name}{$ticket};
    return if !$self->{synced}{$name};
    if ($self->{reuse_sent}{$name} && $self->{may_keep}{$name}
        && !$self->{over}{$name} && !$self->waiting($name) && $self->{ready})
    {
        $self->{idle}{$name} += $weight;
    } else {
        $self->{todo}{$name}{release} += $weight;
    }
}

# Releases all idle permits.
sub give_back {
    my ($self, $name) = @_;
    $self->{todo}{$name}{release} += $self->{idle}{$name};
    $self->{idle}{$name} = 0;
}

# Sends the pending changes. Counts are compared only while no other sync is
# unanswered.
sub flush {
    my ($self, $name) = @_;
    return $self->serve($name) if !$self->{ready};
    $self->serve($name) if $self->paused($name) || $self->late;
    return if $self->late && rand() < 0.5;
    my $todo = $self->{todo}{$name};

    if ($self->{look}{$name} && !$self->{flying}{$name}) {
        $self->{look}{$name} = 0;
        $self->sync($name, [], [], [ $self->queued($name) ], 1);
    }

    return if $self->{flying}{$name} >= 8;
    my @cancel = splice @{ $todo->{cancel} };
    my @ask = $self->paused($name) ? () : splice @{ $todo->{ask} };
    return unless @cancel || @ask || $self->releasable($name)
        || $self->{refresh}{$name};
    $self->sync($name,
        [ map { [ $_, $self->{gone}{$name}{$_}, $self->paid($_) ] }
            @cancel ],
        [ $self->charges($name), map { [ $_,
            @{ $self->{wait}{$name}{$_} }{qw/weight class/},
            $self->{walk}{queue}, $self->key($_) ] } @ask ], [], 0);
    $self->{wait}{$name}{$_}{epoch} = $self->{epoch} for @ask;
}

# What keys are charged with, as asks without a ticket: now and then the keys of
# some tickets.
sub charges {
    my ($self, $name) = @_;
    return if !$self->{walk}{charges} || !$self->{fair} || rand() > 0.3;
    my @tickets = grep { $self->key($_) } $self->waiting($name);
    return map {
        my (undef, $key) = $self->key($_);
        [ 0, 1, $self->{wait}{$name}{$_}{class}, 0,
            1 + int exp rand log 1e7, $key ]
    } map { pick(@tickets) } 1 .. min(2, scalar @tickets);
}

# While the state recovers, released permits would lie idle.
sub releasable {
    my ($self, $name) = @_;
    return $self->paused($name) ? 0
        : $self->{todo}{$name}{release};
}

# Tickets that count as queued, also of aborted requests.
sub queued {
    my ($self, $name) = @_;
    my ($wait, $gone) = ($self->{wait}{$name}, $self->{gone}{$name});
    my %weight = (%$gone, map { $_ => $wait->{$_}{weight} }
        grep { $wait->{$_}{epoch} } keys %$wait);
    return map { [ $_, $weight{$_}, $self->paid($_) ] }
        sort { $a <=> $b } keys %weight;
}

sub sync {
    my ($self, $name, $cancel, $ask, $check, $look) = @_;
    my $walk = $self->{walk};
    $self->{flying}{$name}++;
    $self->{refresh}{$name} = 0;
    my $release = $self->releasable($name);
    $self->{todo}{$name}{release} -= $release;
    $self->{todo}{$name}{late} = 0 if $release;
    $self->{sent}{$name} += $release;
    $self->{reuse_sent}{$name} = $walk->{quiet} ? 0 : $self->{may_keep}{$name};
    my @head = ($self->{gen}, $self->{limit},
        4 + pick(0, 8) + 2 * $self->{reuse_sent}{$name}, $release,
        scalar @$cancel, scalar @$ask, scalar @$check);
    $self->send('sync', $name, [ "@head", $name,
        map { "@$_" } @$cancel, @$ask, @$check ],
        { cancel => $cancel, ask => $ask, check => $check, look => $look,
            release => $release, held => $self->counted($name) });
}

# Uses the permit of a granted ticket; false: the fence has passed.
sub grant {
    my ($self, $name, $ticket) = @_;
    my $wait = $self->{wait}{$name}{$ticket} or return 1;
    return 0 if $self->fenced;
    $self->{used}{$name}{$ticket} = $wait->{weight};
    delete $self->{wait}{$name}{$ticket};
    return 1;
}

# The ticket is neither queued nor granted: its cancel is void.
sub forget_cancel {
    my ($self, $name, $ticket) = @_;
    delete $self->{gone}{$name}{$ticket};
    my $todo = $self->{todo}{$name};
    $todo->{cancel} = [ grep { $_ != $ticket } @{ $todo->{cancel} } ];
}

sub ask_again {
    my ($self, $name, $ticket) = @_;
    my $wait = $self->{wait}{$name}{$ticket};
    @$wait{qw/place epoch/} = (0, 0);
    push @{ $self->{todo}{$name}{ask} }, $ticket;
}

sub message {
    my ($self, $text) = @_;
    my ($seal, $word, $name, $epoch, undef, undef, @tickets) = split / /, $text;
    return if $seal ne $self->seal || $word eq 'beat';
    return $self->recovery(0) if $word eq 'recovered';
    return $self->ask_at_once if $word eq 'raised';
    if ($word eq 'sessions') {
        $self->{told} = max($self->{told}, $name) if $self->{told};
        return;
    }
    return if $epoch != $self->{epoch};
    if ($word eq 'recall') {
        $self->{may_keep}{$name} = 0;
        $self->{refresh}{$name} = 1;
        return $self->give_back($name);
    }
    # the reply of the next sync has the tickets
    $self->{refresh}{$name} = 1 if $word eq 'drop';
    return if $word ne 'grant';
    for my $ticket (@tickets) {
        return $self->hello unless $self->grant($name, $ticket);
    }
}

sub receive {
    my ($self, $command, $reply) = @_;
    my ($session, $epoch, $number, $status, @rest) = @$reply;
    my $script = $command->{script};
    die "reply does not fit\n" unless $session eq $self->{name}
        && $epoch == $command->{epoch} && $number == $command->{number};

    if ($script eq 'bye') {
        $self->{byes} =
            [ grep { $_ ne $command->{payload} } @{ $self->{byes} } ];
        return;
    }
    return if $epoch != $self->{epoch};
    die "$script: status $status\n" if $status > 2;
    return $self->hello if $status;

    if ($script eq 'hello') {
        $self->hello_reply($command, @rest);
    } elsif ($script eq 'beat') {
        # another process has the state, and the connection has not ended
        return $self->hello if $rest[9] && $rest[9] != $self->{term};
        $self->renew($command, max($rest[0], 0), @rest[2, 7, 8]);
        $self->ask_at_once if $rest[6];
        $self->{own_fence} = $self->{fence};
    } elsif ($script =~ /^(configure|adjust)$/) {
        # nothing else to do
    } elsif ($script eq 'order') {
        $self->send('order', $command->{name}, [ $command->{name}, '=', '=' ])
            if $rest[6];
    } elsif ($script eq 'declared') {
        $self->recovery($rest[0]);
        $self->expired if $self->{new_state} && $self->own_fenced;
        $self->{new_state} = 0;
        $self->{known_run} = $self->{run};
        $self->{own_fence} = $self->{fence};
        $self->{ready} = 1;
        $self->ask_at_once;
    } elsif ($script eq 'declare') {
        $self->declare_reply($command, @rest);
        $self->{declares}--;
        $self->declare;
    } else {
        $self->sync_reply($command, @rest);
    }
}

# States the limits of the configuration, each name in a part of its own.
sub state {
    my ($self, $config) = @_;
    my @names = @{ $self->{walk}{names} };
    $self->send('configure', undef, [ $config, $_, scalar @names, 1,
        $names[$_], $self->limit_of($names[$_], $config) ]) for 0 .. $#names;
}

# The first name has limit=auto in walks with it.
sub limit_of {
    my ($self, $name, $config) = @_;
    my $walk = $self->{walk};
    my ($limit) = $config =~ /(\d+)$/;
    return $limit if !$walk->{can}{auto} || $limit != $walk->{limit}
        || $name ne $walk->{names}[0];
    return sprintf '%d=1-%d', 1 + int $limit / 2, $limit;
}

sub declare_reply {
    my ($self, $command, undef, @places) = @_;
    my $name = $command->{name};
    for my $ticket (@{ $command->{payload} }) {
        my $place = shift @places;
        my $wait = $self->{wait}{$name}{$ticket};
        if (!$place && !$wait) {
            $self->forget_cancel($name, $ticket);
        } elsif (!$place) {
            $self->ask_again($name, $ticket);
        } elsif ($wait) {
            @$wait{qw/place epoch/} = ($place, $self->{epoch});
        }
    }
}

sub sync_reply {
    my ($self, $command, @rest) = @_;
    my ($name, $payload) = @$command{qw/name payload/};
    my ($gone, $todo) = ($self->{gone}{$name}, $self->{todo}{$name});
    my ($in_use, $limit, undef, $recovery, $held, $waiting, $may_keep, $more) =
        splice @rest, 0, 8;
    $may_keep = 0 if $may_keep < 0;
    $self->{over}{$name} = 0 if !$recovery && $in_use <= $limit;
    $self->recovery($recovery) if $recovery;
    $self->{flying}{$name}--;
    $self->{sent}{$name} -= $payload->{release};
    $self->{may_keep}{$name} = $may_keep;
    $self->give_back($name) if !$may_keep;
    # the walk's scripts leave much of their work: calling again is left out
    # where that is tested
    $self->{refresh}{$name} = 1 if $more && !$self->broken('more');

    for (@{ $payload->{cancel} }) {
        my ($ticket) = @$_;
        my $weight = delete $gone->{$ticket};
        next if shift @rest || !$weight;
        $todo->{release} += $weight;
        $todo->{late} += $weight unless $self->broken('late');
    }

    my @granted;
    for (@{ $payload->{ask} }) {
        my ($ticket) = @$_;
        my ($verdict, $place) = splice @rest, 0, 3;
        my $wait = $self->{wait}{$name}{$ticket};
        if ($verdict == 1) {
            push @granted, $ticket;
        } elsif ($verdict == 2) {
            $wait->{place} = $place if $wait;
        } elsif (!$wait) {
            $self->forget_cancel($name, $ticket);
        } elsif ($verdict == 0) {
            delete $self->{wait}{$name}{$ticket};
        } else {
            $self->ask_again($name, $ticket);
        }
    }

    my ($there, $absent) = (0, 0);
    for (@{ $payload->{check} }) {
        my ($ticket, $weight) = @$_;
        my $answer = shift @rest;
        if ($answer == 0) {
            $absent += $weight;
            push @granted, $ticket;
        } elsif ($answer == 1) {
            $there++;
        } else {
            delete $self->{wait}{$name}{$ticket};
            $self->forget_cancel($name, $ticket);
        }
    }
    if ($payload->{look}
        && ($payload->{held} + $absent != $held || $there != $waiting))
    {
        $self->{walk}->note("$self->{name} $name: worker $payload->{held} +"
            . " $absent, $there; account $held, $waiting");
        $self->{walk}->differed("$self->{name} $name");
        return $self->hello;
    }

    for my $ticket (map { -$_ } grep { $_ < 0 } @rest) {
        $self->{walk}{count}{dropped}++;
        delete $self->{wait}{$name}{$ticket};
        $self->forget_cancel($name, $ticket);
    }
    for my $ticket (@granted, grep { $_ > 0 } @rest) {
        return $self->hello unless $self->grant($name, $ticket);
    }
}

1;
