package Soak::Windows;

# What the faults that were carried out excuse, and when. The checker's own
# table: it does not ask the schedule what a fault is.
#
# Called by: Soak::Check.

use strict;
use warnings;

use List::Util qw(max min);

# s, multiplied on slow builds: until a change is in force everywhere
use constant GRACE => 1.2;

# s: a master is silent for no longer before another one takes its place
use constant SILENT => 4;

# s, so too: a response that takes as long from the backend to the access log,
# or from there to the client, or a backend that ends none of many requests,
# shows that processes of the machine had to wait; they catch up a moment later
use constant { LATE => 0.1, STALL => 0.25, MANY => 10, CATCH_UP => 0.3 };

# s: of a time as long as dsem_redis_timeout the machine did not give so much
# (a metronome shows it): Redis may not have replied in time
use constant { TIMEOUT => 1, STOOD => 0.5 };

my %KINDS = (
    # nobody can ask Redis, or one node cannot: requests end as ERROR, or
    # DEGRADED where dsem_on_error is local
    unavailable => qr/^(?:link_(?!cut|reset|swallow)|redis_|client_pause
        |out_of_memory|failover|master_|shard_|slot_move|suspend_worker
        |freeze_worker|flushall|two_masters)/x,
    # workers resynchronize, or do not run: for a lease, or as long as they
    # take to reconnect
    order => qr/^(?:link_(?!cut|reset)|redis_|client_pause|out_of_memory
        |failover|master_|shard_|slot_move|flushall|suspend_|freeze_|remove_
        |two_masters|kill_node|stop_|quit_|sentinel_kill|replica_kill)/x,
    soon => qr/^(?:link_cut|link_reset|client_kill|script_flush|kill_worker
        |upgrade|reload)/x,
    # connections of clients end
    ends => qr/^(?:kill_|stop_node|quit_node)/,
    renews => qr/^(?:reload|upgrade|quit_node)/,
    # the logical clock or a worker is behind
    stopped => qr/^(?:suspend_worker|freeze_worker)/,
    # a replica becomes a master
    promotes => qr/^(?:failover|master_|shard_)/,
);

sub new {
    my ($class, $logs) = @_;
    my $conf = $logs->{conf};
    my $self = bless { faults => $logs->{faults}, conf => $conf,
        grace => GRACE * $conf->{factor}, lease => $conf->{lease},
        metronome => $logs->{metronome} }, $class;
    my @stood = $self->stood;
    # every recovery from trouble ends within a lease, a heartbeat and a grace
    my $after = $self->{lease} + 1 + $self->{grace};
    my @unasked = $self->unasked($after, @{ $logs->{promotions} });
    $self->{faults} = [ @{ $logs->{faults} },
        map { { kind => 'two_masters', from => $_, to => $_ + $after } }
        @unasked ];
    # until then it has not replied to sentinels either
    $self->{unavailable} = [ merge($self->merged('unavailable', 0.1, $after),
        map({ [$_ - SILENT, $_] } @unasked),
        map { [$_->[0], $_->[1] + $after] } @stood) ];
    $self->{lost} = [ $self->merged('unavailable', 0.1, 1) ];
    $self->{order} = [ merge($self->merged('order', 0.2, $after),
        $self->merged('soon', 0.2, 1 + $self->{grace})) ];
    $self->{busy} = [ merge($self->late($logs), $self->stalls($logs),
        map { [$_->[0], $_->[1] + CATCH_UP] } @stood) ];
    $logs->{stood} = 0;
    $logs->{stood} += $_->[1] - $_->[0] for @stood;
    $logs->{busy} = 0;
    $logs->{busy} += $_->[1] - $_->[0] for @{ $self->{busy} };
    return $self;
}

# Spans of time in which the machine was busy.
sub late {
    my ($self, $logs) = @_;
    my ($requests, $verdicts) = @$logs{qw(request verdict)};
    my $most = LATE * $self->{conf}{factor};
    return map {
        my ($sign, $ended, $nonce, $how) = @$_;
        my ($r, $v) = ($requests->{$nonce}, $verdicts->{$nonce});
        $sign eq '-' && $how eq 'answered' && $r && $v && $r->[0] ne 'slow'
            && $r->[6] eq '200' ? grep { $_->[1] - $_->[0] > $most + CATCH_UP }
            [$ended, $v->[0] + CATCH_UP], [$v->[0], $r->[5] + CATCH_UP] : ();
    } @{ $logs->{backend} };
}

# Spans of time in which the machine gave less than a half.
sub stood {
    my ($self) = @_;
    my $metronome = $self->{metronome} // return;
    my (@recent, @stood);
    for my $n (0 .. $metronome->count - 1) {
        my ($time, $stalled) = $metronome->record($n);
        push @recent, [$time, $stalled];
        # the last one before the span is its beginning
        shift @recent while @recent > 2 && $recent[1][0] <= $time - TIMEOUT;
        push @stood, [$recent[0][0], $time]
            if $stalled - $recent[0][1] >= STOOD;
    }
    return merge(@stood);
}

# Seconds from..to that the machine did not give.
sub stall {
    my ($self, $from, $to) = @_;
    return $self->{metronome} ? $self->{metronome}->stalled($from, $to) : 0;
}

sub stalls {
    my ($self, $logs) = @_;
    my ($last, $level, @stalls) = (0, 0);
    for my $event (@{ $logs->{backend} }) {
        my ($sign, $time) = @$event;
        push @stalls, [$last, $time + CATCH_UP] if $level >= MANY
            && $time - $last > STALL * $self->{conf}{factor};
        $level += $sign eq '+' ? 1 : -1;
        $last = $time;
    }
    return @stalls;
}

# True if workers neither come, go nor reconnect, and the machine is not busy.
sub calm {
    my ($self, $from, $to) = @_;
    return !$self->touches('order', $from, $to)
        && !$self->touches('busy', $from, $to);
}

sub of_kind {
    my ($self, $group) = @_;
    return grep { $_->{kind} =~ $KINDS{$group} } @{ $self->{faults} };
}

# Promotions beyond the one that each fault asks for: a master was taken for
# dead that was alive, as a busy machine delayed it.
sub unasked {
    my ($self, $after, @promotions) = @_;
    my @faults = sort { $a->{to} <=> $b->{to} } $self->of_kind('promotes');
    my @unasked;
    for my $at (sort { $a <=> $b } @promotions) {
        my ($i) = grep { $faults[$_]{from} <= $at
            && $faults[$_]{to} + $after >= $at } 0 .. $#faults;
        if (defined $i) {
            splice @faults, $i, 1;
        } else {
            push @unasked, $at;
        }
    }
    return @unasked;
}

sub merge {
    my @all = sort { $a->[0] <=> $b->[0] } @_;
    my @merged;
    for my $one (@all) {
        my $last = $merged[-1];
        if ($last && $one->[0] <= $last->[1]) {
            $last->[1] = max($last->[1], $one->[1]);
        } else {
            push @merged, [@$one];
        }
    }
    return @merged;
}

sub merged {
    my ($self, $group, $before, $after) = @_;
    return merge(map { [$_->{from} - $before, $_->{to} + $after] }
        $self->of_kind($group));
}

# True if the time from..to touches one of these windows (merged ones).
sub touches {
    my ($self, $group, $from, $to) = @_;
    my $all = $self->{$group};
    my ($low, $high) = (0, scalar @$all);
    while ($low < $high) {
        my $middle = int(($low + $high) / 2);
        $all->[$middle][1] < $from ? ($low = $middle + 1) : ($high = $middle);
    }
    return $low < @$all && $all->[$low][0] <= $to;
}

# True if a connection to this node may have ended without a response.
sub may_end {
    my ($self, $node, $status, $reused, $from, $to) = @_;
    my $grace = $self->{grace};
    my $on = sub {
        my ($fault) = @_;
        return (!$fault->{node} || "n$fault->{node}" eq $node)
            && $fault->{from} - 0.2 <= $to && $fault->{to} + $grace >= $from;
    };
    return 1 if grep { $on->($_) } $self->of_kind('ends');
    return $reused && $status =~ /^(?:empty|reset|goaway)$/
        && grep { $on->($_) } $self->of_kind('renews');
}

# How long workers of this node were stopped meanwhile, in seconds.
sub stopped {
    my ($self, $node, $from, $to) = @_;
    my $sum = 0;
    for my $fault ($self->of_kind('stopped')) {
        next if "n$fault->{node}" ne $node;
        my $both = min($to, $fault->{to}) - max($from, $fault->{from});
        $sum += $both if $both > 0;
    }
    return $sum;
}

###########################################################################
# the limit

# The highest limit that may be in force for a request that starts now. A limit
# that was lowered, and a pause, are in force everywhere after the grace.
sub limit {
    my ($self, $sem, $at) = @_;
    my $limit = $self->{conf}{semaphores}{$sem}{limit};
    my $grace = $self->{grace};
    for my $fault (@{ $self->{by_sem}{$sem} //= [ grep {
        $_->{kind} =~ /^(?:limit|pause)$/ && $_->{sem} eq $sem
    } @{ $self->{faults} } ] })
    {
        my $end = $fault->{healing} // $fault->{to};
        my $new = $fault->{kind} eq 'pause' ? 0 : $fault->{limit};
        next if $fault->{failed} || !defined $new;
        if ($new > $limit) {
            return $new if $at >= $fault->{from}
                && $at <= $fault->{to} + $grace;
        } elsif ($at > $fault->{done} + $grace && $at < $end) {
            return $new;
        }
    }
    return $limit;
}

# True if a fault of this kind touches the time from..to, or a grace before it.
sub during {
    my ($self, $kind, $from, $to) = @_;
    return scalar grep { $_->{kind} eq $kind && $_->{from} <= $to
        && $_->{to} + $self->{grace} >= $from } @{ $self->{faults} };
}

# True if an order of this semaphore changes meanwhile.
sub ordered {
    my ($self, $sem, $from, $to) = @_;
    return scalar grep { $_->{kind} =~ /^(?:limit|pause)$/
        && $_->{sem} eq $sem && $_->{from} <= $to
        && $_->{to} + $self->{grace} >= $from } @{ $self->{faults} };
}

# True if an order with this limit is in force, or was until just now.
sub was_ordered {
    my ($self, $sem, $limit, $at) = @_;
    return scalar grep { $_->{kind} eq 'limit' && $_->{sem} eq $sem
        && ($_->{limit} // -1) == $limit && $_->{from} <= $at
        && $_->{to} + $self->{grace} >= $at } @{ $self->{faults} };
}

# With dsem_on_error local each worker adds its share while it cannot ask; and
# two masters at once both grant.
sub share {
    my ($self, $sem, $at) = @_;
    return $self->{conf}{semaphores}{$sem}{limit}
        if $sem eq 'local' && $self->touches('unavailable', $at, $at)
        || grep { $_->{kind} eq 'two_masters' && $_->{from} <= $at
            && $at <= $_->{to} } @{ $self->{faults} };
    return 0;
}

# When a worker could not reach Redis, or did not run: spans of time per node
# and per process ("*": all).
sub cuts {
    my ($self) = @_;
    return $self->{cuts} if $self->{cuts};
    my %of;
    for my $fault (@{ $self->{faults} }) {
        my $span = [ $fault->{from}, $fault->{to} + 0.5 ];
        push @{ $of{ $fault->{pid} } }, $span
            if $fault->{kind} =~ $KINDS{stopped} && $fault->{pid};
        push @{ $of{"n$fault->{node}"} }, $span if $fault->{kind} =~ /^link_/;
        push @{ $of{'*'} }, $span
            if $fault->{kind} =~ /^(?:redis_|client_pause|out_of_memory
                |failover|master_|shard_|slot_move)/x;
    }
    return $self->{cuts} = \%of;
}

# A request is beyond the limit, by name, where its worker could not renew the
# lease since before the request, or where its session was removed. Trouble of
# Redis with all workers alone excuses nothing; it makes that of a worker longer.
sub excused {
    my ($self, $node, $pid, $start, $at) = @_;
    my $cuts = $self->cuts;
    my @own = map { @{ $cuts->{$_} // [] } } $node, $pid;
    for my $span (@own ? merge(@own, @{ $cuts->{'*'} // [] }) : ()) {
        next unless grep { $_->[0] <= $span->[1] && $_->[1] >= $span->[0] }
            @own;
        return 1 if $start <= $span->[1]
            && min($at, $span->[1]) - $span->[0] > $self->{lease} / 2;
    }
    return scalar grep { $_->{kind} eq 'remove_session'
        && "n$_->{node}" eq $node && $_->{from} <= $at
        && $start <= $_->{to} + $self->{grace} + 0.6 } @{ $self->{faults} };
}

1;
