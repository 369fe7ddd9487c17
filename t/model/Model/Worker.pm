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
#               was answered), and the time when it was sent
#   todo        name -> release, cancel, ask: for the next sync
#   conn        commands not executed, replies not read; undef: not connected

use warnings;
use strict;

sub new {
    my ($class, $walk, %arg) = @_;
    my $self = bless {
        walk => $walk, gen => 0, byes => [], epoch => 0, number => 0,
        ready => 0, fence => -1, stopped => 0, tickets => 0, beaten => 0,
        looked => 0, told => 0, told_at => 0, used => {}, wait => {}, %arg,
    }, $class;
    for my $name (@{ $walk->{names} }) {
        $self->{used}{$name} = {};
        $self->{wait}{$name} = {};
    }
    $self->forget;
    return $self;
}

# Resets the state that ends with an epoch.
sub forget {
    my ($self) = @_;
    $self->{ready} = 0;
    for my $name (@{ $self->{walk}{names} }) {
        $self->{todo}{$name} = { release => 0, cancel => [], ask => [] };
        $self->{gone}{$name} = {};
        $self->{flying}{$name} = 0;
        $self->{look}{$name} = 0;
        $self->{idle}{$name} = 0;
        $self->{reuse_sent}{$name} = 0;
        $self->{may_keep}{$name} = 1;
        $self->{refresh}{$name} = 0;
    }
}

sub held {
    my ($self, $name) = @_;
    my $sum = 0;
    $sum += $_ for values %{ $self->{used}{$name} };
    return $sum;
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
        argv => [ $self->{name}, $self->{epoch}, $number, @{ $argv // [] } ],
    };
}

# Begins an epoch and declares the absolute state.
sub hello {
    my ($self) = @_;
    my $walk = $self->{walk};
    $self->{epoch}++;
    $self->forget;
    $self->{conn} //= { commands => [], replies => [] };
    $self->send('bye', undef, [ $_, $walk->{lease} ], $_)
        for @{ $self->{byes} };
    $self->send('hello', undef,
        [ $self->{gen}, 1 + int rand 2 ** 40, $walk->{lease}, $walk->{run},
            $self->{told}, $walk->{now} - $self->{told_at} ]);

    for my $name (@{ $walk->{names} }) {
        my $held = $self->held($name);
        my @tickets;
        for my $ticket ($self->waiting($name)) {
            my $wait = $self->{wait}{$name}{$ticket};
            if ($wait->{epoch} == 0) {
                push @{ $self->{todo}{$name}{ask} }, $ticket;
            } else {
                push @tickets, [ $ticket, @$wait{qw/weight place epoch/} ];
            }
        }
        next unless $held || @tickets;
        $self->send('declare', $name, [ $walk->{limit}, $held, 0,
            scalar @tickets, map { @$_ } @tickets ],
            [ map { $_->[0] } @tickets ]);
    }
    $self->send('declared');
}

sub beat {
    my ($self) = @_;
    $self->{beaten} = $self->{walk}{now};
    $self->send('beat', undef, [ $self->{gen}, $self->{walk}{lease} ]);
}

# A request arrives (come), is aborted while it waits (leave), ends (finish).
sub come {
    my ($self, $name, $weight, $class) = @_;
    my $ticket = ++$self->{tickets};
    if ($self->{idle}{$name} >= $weight && !$self->waiting($name)
        && $self->{ready} && $self->{walk}{now} < $self->{fence})
    {
        $self->{idle}{$name} -= $weight;
        $self->{used}{$name}{$ticket} = $weight;
        return $ticket;
    }
    $self->give_back($name);
    $self->{wait}{$name}{$ticket} =
        { weight => $weight, class => $class, place => 0, epoch => 0 };
    push @{ $self->{todo}{$name}{ask} }, $ticket if $self->{conn};
    return $ticket;
}

sub leave {
    my ($self, $name, $ticket) = @_;
    my $wait = delete $self->{wait}{$name}{$ticket};
    return unless $self->{conn};
    $self->{gone}{$name}{$ticket} = $wait->{weight};
    push @{ $self->{todo}{$name}{cancel} }, $ticket;
}

sub finish {
    my ($self, $name, $ticket) = @_;
    my $weight = delete $self->{used}{$name}{$ticket};
    return unless $self->{conn};
    if ($self->{reuse_sent}{$name} && $self->{may_keep}{$name}
        && !$self->waiting($name) && $self->{ready})
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
    return if !$self->{ready};
    my $todo = $self->{todo}{$name};

    # an unsent ask and its unsent cancel are both dropped
    my %unsent = map { $_ => 1 } @{ $todo->{ask} };
    my %both = map { $_ => 1 } grep { $unsent{$_} } @{ $todo->{cancel} };
    $todo->{$_} = [ grep { !$both{$_} } @{ $todo->{$_} } ] for qw/ask cancel/;
    delete @{ $self->{gone}{$name} }{ keys %both };

    if ($self->{look}{$name} && !$self->{flying}{$name}) {
        $self->{look}{$name} = 0;
        $self->sync($name, [], [], [ $self->queued($name) ], 1);
    }

    return if $self->{flying}{$name} >= 8;
    my @cancel = splice @{ $todo->{cancel} };
    my @ask = splice @{ $todo->{ask} };
    return unless @cancel || @ask || $todo->{release}
        || $self->{refresh}{$name};
    $self->sync($name,
        [ map { [ $_, $self->{gone}{$name}{$_} ] } @cancel ],
        [ map { [ $_, @{ $self->{wait}{$name}{$_} }{qw/weight class/},
            $self->{walk}{queue} ] } @ask ], [], 0);
    $self->{wait}{$name}{$_}{epoch} = $self->{epoch} for @ask;
}

# Tickets that count as queued, also of aborted requests.
sub queued {
    my ($self, $name) = @_;
    my ($wait, $gone) = ($self->{wait}{$name}, $self->{gone}{$name});
    my %weight = (%$gone, map { $_ => $wait->{$_}{weight} }
        grep { $wait->{$_}{epoch} } keys %$wait);
    return map { [ $_, $weight{$_} ] } sort { $a <=> $b } keys %weight;
}

sub sync {
    my ($self, $name, $cancel, $ask, $check, $look) = @_;
    my $walk = $self->{walk};
    $self->{flying}{$name}++;
    $self->{refresh}{$name} = 0;
    $self->{reuse_sent}{$name} = $walk->{quiet} ? 0 : $self->{may_keep}{$name};
    $self->send('sync', $name, [ $self->{gen}, $name, $walk->{limit},
        1 + 2 * $self->{reuse_sent}{$name}, $self->{todo}{$name}{release},
        scalar @$cancel, scalar @$ask, scalar @$check,
        map { @$_ } @$cancel, @$ask, @$check ],
        { cancel => $cancel, ask => $ask, check => $check, look => $look,
            held => $self->held($name) + $self->{idle}{$name} });
    $self->{todo}{$name}{release} = 0;
}

# Uses the permit of a granted ticket; false: the fence has passed.
sub grant {
    my ($self, $name, $ticket) = @_;
    my $wait = $self->{wait}{$name}{$ticket} or return 1;
    return 0 if $self->{walk}{now} >= $self->{fence};
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
    my ($word, $name, $epoch, undef, undef, @tickets) = split / /, $text;
    return if $word =~ /^(?:beat|recovered)$/ || $epoch != $self->{epoch};
    if ($word eq 'recall') {
        $self->{may_keep}{$name} = 0;
        $self->{refresh}{$name} = 1;
        return $self->give_back($name);
    }
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

    my $fence = $command->{at} + 0.75 * $self->{walk}{lease};
    if ($script =~ /^(?:hello|beat)$/) {
        @$self{qw/told told_at/} =
            ($rest[ $script eq 'hello' ? 1 : 0 ], $command->{at});
        $self->{walk}->told($self, $command);
    }
    if ($script eq 'hello') {
        $self->{fence} = $fence;
        $self->{gen} = $rest[0];
    } elsif ($script eq 'beat') {
        $self->{fence} = $fence;
    } elsif ($script eq 'declared') {
        $self->{ready} = 1;
    } elsif ($script eq 'declare') {
        $self->declare_reply($command, @rest);
    } else {
        $self->sync_reply($command, @rest);
    }
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
    my (undef, undef, undef, undef, $held, $waiting, $may_keep) =
        splice @rest, 0, 7;
    $self->{flying}{$name}--;
    $self->{may_keep}{$name} = $may_keep;
    $self->give_back($name) if !$may_keep;

    for (@{ $payload->{cancel} }) {
        my ($ticket) = @$_;
        my $weight = delete $gone->{$ticket};
        $todo->{release} += $weight if !shift @rest && $weight;
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

    for my $ticket (@granted, @rest) {
        return $self->hello unless $self->grant($name, $ticket);
    }
}

1;
