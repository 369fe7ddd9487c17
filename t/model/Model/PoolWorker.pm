package Model::PoolWorker;

# A worker as a walk of a pool has it: what it says to the scripts, and what it
# makes of replies and messages. Permits are counted by server: of requests that
# run, idle ones, and those that go back with the next sync.
#
# Called by: Model::PoolWalk.

use warnings;
use strict;

use List::Util qw(sum0);

use constant { OK => 0, RESYNC => 1, GONE => 3, UNLISTED => 6 };

sub new {
    my ($class, $walk, $node) = @_;
    return bless {
        walk => $walk, node => $node, epoch => 0, gen => 0, told => 0,
        number => 0, inbox => [], recovering => 0, stated => '', done => {},
        name => sprintf('%s:0:%016x', $node, ++$walk->{sessions}),
        map { $_ => {} } qw(run idle free wait cancels late),
    }, $class;
}

sub sum { return sum0(map { values %$_ } @_) }

# Moves permits of all servers, or of one.
sub move {
    my ($from, $to, @servers) = @_;
    for (@servers ? @servers : keys %$from) {
        my $n = @servers ? 1 : $from->{$_};
        $from->{$_} -= $n;
        $to->{$_} += $n;
        delete $from->{$_} if !$from->{$_};
    }
}

sub busy {
    my ($self) = @_;
    return sum(@$self{qw(run idle free)})
        || grep { %$_ } @$self{qw(wait cancels late)};
}

sub key { return defined $_[0] ? $_[1] . $_[0] : '' }

###########################################################################
# a connection

# A new epoch: commands and messages of the old one are void.
sub hello {
    my ($self) = @_;
    my $walk = $self->{walk};
    $self->{epoch}++;
    $self->{$_} = {} for qw(idle free cancels late);
    @$self{qw(inbox stated)} = ([], '');
    my ($status, $gen, undef, $recovery) = $walk->script('hello',
        @$self{qw(name epoch)}, 1, $self->{gen}, 1 + int rand 2 ** 40, 60_000,
        $self->{told}, 0, '-', sprintf('%016x', $self->{epoch}), 1, 0, 60_000,
        0);
    die "C1 hello: status $status" if $status != OK;
    @$self{qw(gen told)} = ($gen, 4);
    $self->declare or return $self->hello if sum($self->{run})
        || %{ $self->{wait} };
    my @declared = $walk->script('declared', @$self{qw(name epoch)}, 3);
    return $self->hello if $declared[0] == RESYNC;
    $self->{recovering} = $declared[1] > 0;
}

sub declare {
    my ($self) = @_;
    my ($walk, $wait) = @$self{qw(walk wait)};
    my ($id, $text) = $walk->list($self->{node});
    my @tickets = sort { $a <=> $b } keys %$wait;
    my ($status, undef, @places) = $walk->script('declare',
        @$self{qw(name epoch)}, 2, $walk->{limit}, sum($self->{run}), 2,
        scalar @tickets, $id eq '-' ? $id : "$id $text", text($self->{run}),
        map {
            my $of = $wait->{$_};
            ($_, 1, @$of{qw(place epoch)},
                $walk->{fair} ? key($of->{key}, '1000 ') || '-' : ());
        } @tickets);
    return 0 if $status == RESYNC;
    die "C1 declare: status $status" if $status != OK;
    for my $ticket (@tickets) {
        my $place = shift @places;
        if ($place) {
            @{ $wait->{$ticket} }{qw(place epoch)} = ($place, $self->{epoch});
        } else {
            my $of = delete $wait->{$ticket};
            push @{ $walk->{reask} }, [ $self, @$of{qw(class key)} ];
        }
    }
    return 1;
}

sub text { Model::PoolWalk::text($_[0]) }

###########################################################################
# what happens to it

# Requests come: on idle permits, or some that ask at once.
sub arrive {
    my ($self) = @_;
    my $walk = $self->{walk};
    my @idle = grep { $self->{idle}{$_} } $walk->servers($self->{node});
    if (@idle && !%{ $self->{wait} }) {
        my $server = $idle[ rand @idle ];
        move($self->{idle}, $self->{run}, $server);
        return $walk->started($server);
    }
    my @asks = map { [
        ++$walk->{ticket}, Model::PoolWalk::one_of(0, 0, 0, -1, 3),
        $walk->{fair} ? Model::PoolWalk::one_of(qw(a b c)) : undef,
        Model::PoolWalk::one_of(0, 8, 20, 20),
    ] } 1 .. Model::PoolWalk::one_of(1, 1, 1, 1, 3);
    move(@$self{qw(idle free)});
    my $lost = rand;
    $self->sync(asks => \@asks, lost => $lost < 0.01 ? 'call'
        : $lost < 0.02 ? 'reply' : '');
}

# A request ends.
sub leave {
    my ($self) = @_;
    my @run = sort keys %{ $self->{run} } or return;
    my $server = $run[ rand @run ];
    my $keeps = Model::PoolWalk::chance(0.4) && !%{ $self->{wait} };
    move($self->{run}, $self->{ $keeps ? 'idle' : 'free' }, $server);
    $self->sync if !$keeps && Model::PoolWalk::chance(0.9);
}

sub cancel {
    my ($self) = @_;
    my @waiting = sort { $a <=> $b } keys %{ $self->{wait} } or return;
    my $ticket = $waiting[ rand @waiting ];
    $self->{cancels}{$ticket} = delete $self->{wait}{$ticket};
    $self->sync if Model::PoolWalk::chance(0.5);
}

sub check {
    my ($self) = @_;
    $self->sync(check => 1) if !@{ $self->{inbox} };
}

# All that it has ends.
sub end_all {
    my ($self) = @_;
    move($self->{$_}, $self->{free}) for qw(run idle);
    my $check = grep { %$_ } @$self{qw(wait late)};
    $self->sync(keep => 0, check => $check);
}

sub admit {
    my ($self, $server) = @_;
    $self->{run}{$server}++;
    $self->{walk}->started($server);
}

# A permit that no request has asked for, or none wants any more.
sub give_back { $_[0]{free}{ $_[1] }++ }

###########################################################################
# sync

# asks: [ticket, class, key, queue limit] ...; lost: its call, or its reply;
# keep: 0, no idle permits
sub sync {
    my ($self, %arg) = @_;
    my $walk = $self->{walk};
    my $keep = $arg{keep} // 1;
    my ($id, $text) = $walk->list($self->{node});
    my %usable = map { $_ => 1 } $walk->servers($self->{node});
    move($self->{idle}, $self->{free}) if !$keep;
    for my $server (grep { !$usable{$_} } keys %{ $self->{idle} }) {
        $self->{free}{$server} += delete $self->{idle}{$server};
    }
    my $call = {
        servers => [ sort keys %usable ], id => $id,
        asks => $arg{asks} // [], freed => { %{ $self->{free} } },
        cancels => [ sort { $a <=> $b } keys %{ $self->{cancels} } ],
        checks => [ $arg{check} ? sort { $a <=> $b }
            map { keys %{ $self->{$_} } } qw(wait late) : () ],
    };
    if (($arg{lost} // '') eq 'call') {
        $self->waits(@{ $call->{asks} });
        return $self->hello;
    }
    # Redis may have forgotten it where the account is empty
    my $stated = $self->{stated} eq $id
        && (sum(@$self{qw(run idle free)}) || %{ $self->{wait} });
    $text = $id eq '-' ? $id : "$id $text";
    my ($status, @of) = $self->call($call, $keep, $stated ? $id : $text);
    if ($status == UNLISTED) {
        $walk->saw('unlisted');
        ($status, @of) = $self->call($call, $keep, $text);
    }
    if (($arg{lost} // '') eq 'reply' || $status == RESYNC) {
        $self->waits(@{ $call->{asks} });
        return $self->hello;
    }
    die "C1 sync: status $status" if $status != OK;
    @$self{qw(stated free recovering)} = ($id, {}, $of[3] > 0);
    $self->sync_read($call, @of);
}

sub waits {
    my ($self, @asks) = @_;
    $self->{wait}{ $_->[0] } = { class => $_->[1], key => $_->[2], place => 0,
        epoch => $self->{epoch} } for @asks;
}

sub call {
    my ($self, $call, $keep, $list) = @_;
    my $walk = $self->{walk};
    my $of = { map { %{ $self->{$_} } } qw(wait late cancels) };
    my $known = sub { "$_[0] 1" . key($of->{ $_[0] }{key}, ' 1000 0 ') };
    return $walk->script('sync', $self->{name}, join(' ', $self->{epoch},
        ++$self->{number}, $self->{gen}, $walk->{limit},
        17 + ($keep ? 2 : 0), sum($call->{freed}),
        map { scalar @$_ } @$call{qw(cancels asks checks)}),
        $walk->name, $list, text($call->{freed}),
        map({ $known->($_) } @{ $call->{cancels} }),
        map({ "$_->[0] 1 $_->[1] $_->[3]" . key($_->[2], ' 1000 ') }
            @{ $call->{asks} }),
        map({ $known->($_) } @{ $call->{checks} }));
}

sub sync_read {
    my ($self, $call, @of) = @_;
    my ($walk, @servers) = ($self->{walk}, @{ $call->{servers} });
    my ($recovery, $held, undef, $may_keep, $more) = @of[ 3 .. 7 ];
    $may_keep = 0 if $may_keep < 0;
    my @value = @of[ 10 .. $#of ];
    for my $ticket (@{ $call->{cancels} }) {
        my $was = delete $self->{cancels}{$ticket};
        next if shift @value || delete $self->{done}{$ticket};
        # a message, or a check, tells at which server it was granted
        $walk->saw('late cancel');
        $self->{late}{$ticket} = $was;
    }
    my @asks;
    for my $ask (@{ $call->{asks} }) {
        my ($verdict, $place) = splice @value, 0, 3;
        push @asks, [ @$ask[0, 1],
            $verdict == 1 ? $servers[ $place - 1 ] : undef ];
        if ($verdict == 2) {
            $self->waits($ask);
            $self->{wait}{ $ask->[0] }{place} = $place;
        }
        push @{ $walk->{reask} }, [ $self, @$ask[1, 2] ] if $verdict == 3;
    }
    $walk->served($self, $more, @asks) if !$recovery;
    $walk->kept($self, $may_keep) if !$more;
    $self->admit($_) for grep { defined } map { $_->[2] } @asks;
    my %absent;
    for my $ticket (@{ $call->{checks} }) {
        my $state = shift @value;
        $absent{$ticket} = 1 if $state == 0;
        delete $self->{wait}{$ticket} if $state == 2;
    }
    my @counts = @{ $call->{checks} } ? splice @value, 0, scalar @servers : ();
    while (@value && $value[0] > 0) {
        my ($ticket, $n) = splice @value, 0, 2;
        delete $absent{$ticket};
        $self->granted($ticket, $servers[ $n - 1 ]);
    }
    delete $self->{wait}{ -$_ } for @value;
    return if @{ $call->{checks} }
        && !$self->compare(\@servers, \@counts, $held, sort keys %absent);
    move(@$self{qw(idle free)}) if !$may_keep;
    $self->{refresh} = 1 if $more;
}

sub granted {
    my ($self, $ticket, $server) = @_;
    if (delete $self->{wait}{$ticket}) {
        $self->admit($server);
    } elsif (delete $self->{late}{$ticket}) {
        $self->give_back($server);
    } elsif ($self->{cancels}{$ticket} && !$self->{done}{$ticket}) {
        # a cancel that is to be sent will come too late
        $self->{done}{$ticket} = 1;
        $self->give_back($server);
    }
}

# What Redis counts beyond what is known here are permits of the tickets that
# are not in the queue any more, whose messages were lost.
sub compare {
    my ($self, $servers, $counts, $held, @absent) = @_;
    my %known;
    for my $permits (@$self{qw(run idle free)}) {
        $known{$_} += $permits->{$_} for keys %$permits;
    }
    my ($listed, @more) = (0);
    for my $i (0 .. $#$servers) {
        my $n = delete $known{ $servers->[$i] } // 0;
        return $self->differs if $counts->[$i] < $n;
        push @more, ($servers->[$i]) x ($counts->[$i] - $n);
        $listed += $counts->[$i];
    }
    return $self->differs
        if $held != $listed + sum(\%known) || @more != @absent;
    for my $ticket (@absent) {
        $self->{walk}->saw('found by check');
        $self->granted($ticket, shift @more);
    }
    return 1;
}

sub differs {
    my ($self) = @_;
    $self->{walk}->saw('counts differ');
    $self->hello;
    return 0;
}

# The messages that have arrived.
sub read {
    my ($self) = @_;
    while (defined(my $text = shift @{ $self->{inbox} })) {
        my ($what, undef, $epoch, @words) = split ' ', $text;
        next if $what !~ /^(?:grant|recall)$/ || $epoch != $self->{epoch};
        if ($what eq 'recall') {
            move(@$self{qw(idle free)});
            $self->{refresh} = 1;
            next;
        }
        $self->granted(split /@/) for @words[ 2 .. $#words ];
    }
}

1;
