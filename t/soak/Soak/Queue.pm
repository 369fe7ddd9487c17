package Soak::Queue;

# The checks of the queue: the order of requests, fair shares of keys, and
# permits that are free beside a request that waits.
#
# Called by: Soak::Check, which inherits them.

use strict;
use warnings;

use List::Util qw(max min);

use Soak::Logs;

BEGIN {
    no strict 'refs';
    *{$_} = \&{"Soak::Logs::$_"} for qw(KIND SEM STATUS KEY V_DSEM V_WAIT V_PID
        V_ARRIVAL);
}

# s: the difference of arrival from which order matters, in one worker and
# between workers (on the way to Redis a process of the machine may be late),
# and the longest time that a permit may be free beside a waiting request
use constant { WITHIN => 0.15, BETWEEN => 1, FREE => 0.8 };

# s, at RATE 1: how long a request of a key within its share waits at most
use constant PROMPT => 0.6;

# s: starts that are nearer to each other may be one message of Redis
use constant TOGETHER => 0.1;

# s: after the load has begun keys have no past
use constant BEGINS => 3;

# permit time of two keys that always wait, by share; share of the requests of a
# key that others of other workers overtake; how many requests it takes to tell
use constant { UNEQUAL => 2.5, SERVED => 20, OVERTAKEN => 0.33, TELLING => 50 };

# Requests that have waited, in the order of their start at the backend: none
# has arrived at its worker long after one that starts later. With keys: those
# of one key. They wait for long, and a worker to which Redis replies late serves
# its own requests with its permits: between workers most are in order.
sub order {
    my ($self) = @_;
    my ($requests, $verdicts) = @{ $self->{logs} }{qw(request verdict)};
    my ($windows, $figures) = @$self{qw(windows figures)};
    my $factor = $self->{conf}{factor};
    my (%last, %n, %overtaken, @wrong);
    $figures->{in_order} //= 0;
    for my $event (grep { $_->[0] eq '+' } @{ $self->{logs}{backend} }) {
        my (undef, $time, $nonce, $sem) = @$event;
        my ($r, $v) = ($requests->{$nonce}, $verdicts->{$nonce});
        next if !$r || !$v || $v->[V_DSEM] ne 'QUEUED'
            || $r->[KIND] eq 'slow';
        next unless $windows->calm($v->[V_ARRIVAL], $time);
        $figures->{in_order}++;
        my $of = $r->[KEY] eq '-' ? $sem : "$sem $r->[KEY]";
        for (["$of $v->[V_PID]", WITHIN * $factor], [$of, BETWEEN * $factor]) {
            my ($queue, $most) = @$_;
            my $last = latest($last{$queue} //= { recent => [] },
                $time - TOGETHER * $factor);
            my $late = $last ? $last->[0] - $v->[V_ARRIVAL] : 0;
            if ($r->[KEY] ne '-' && $queue eq $of) {
                $n{$of}++;
                $overtaken{$of}++ if $late > $most;
            } elsif ($late > $most) {
                push @wrong, sprintf '%s: %s: %s starts %.3f s after %s, '
                    . 'but arrived %.3f s earlier', $self->at($time), $queue,
                    $nonce, $time - $last->[1], $last->[2], $late;
            }
            push @{ $last{$queue}{recent} }, [$v->[V_ARRIVAL], $time, $nonce];
        }
    }
    $figures->{"overtaken, $_"} = "$overtaken{$_} of $n{$_}"
        for keys %overtaken;
    return @wrong, map { "$_: $overtaken{$_} of $n{$_} overtaken" }
        grep { $n{$_} >= TELLING && $overtaken{$_} > OVERTAKEN * $n{$_} }
        sort keys %overtaken;
}

# Of the requests of a queue that have started before a time, the one that has
# arrived last.
sub latest {
    my ($queue, $before) = @_;
    my $recent = $queue->{recent};
    while (@$recent && $recent->[0][1] < $before) {
        my $one = shift @$recent;
        $queue->{last} = $one
            if !$queue->{last} || $queue->{last}[0] < $one->[0];
    }
    return $queue->{last};
}

# A key that needs less than its share is not rejected, and waits a short time.
# Keys that always wait have permits in proportion to their shares.
sub shared {
    my ($self) = @_;
    my ($requests, $verdicts) = @{ $self->{logs} }{qw(request verdict)};
    # it waits for requests, and they take longer at a lower rate
    my $most = BETWEEN * max($self->{conf}{factor},
        PROMPT / ($self->{conf}{rate} // 1));
    my @wrong;
    $self->{figures}{'within share'} //= 0;
    for my $nonce (keys %$verdicts) {
        my ($r, $v) = ($requests->{$nonce}, $verdicts->{$nonce});
        my $key = $r && $self->key($r) // next;
        next if !$key->{within} || $r->[STATUS] !~ /^\d/;
        my ($from, $to) = ($v->[V_ARRIVAL], $v->[V_ARRIVAL] + $v->[V_WAIT]);
        next unless $self->undisturbed($r->[SEM], $from, $to);
        $self->{figures}{'within share'}++;
        push @wrong, sprintf '%s: %s of %s: %s after %.3f s', $self->at($from),
            $nonce, @$r[KEY], @$v[V_DSEM, V_WAIT]
            if $v->[V_DSEM] !~ /^(?:PASSED|QUEUED)$/
            || $v->[V_WAIT] > $most;
    }
    return @wrong, map { $self->unequal($_) } $self->semaphores;
}

# Of a request: its key as in the configuration; undef: none of those.
sub key {
    my ($self, $r) = @_;
    my $keys = $self->{conf}{semaphores}{ $r->[SEM] }{keys};
    return $keys && $keys->{ $r->[KEY] };
}

# True if neither workers nor limits nor keys change from..to, and the load goes
# on and has not just begun: as it ends, a key with more shares has fewer that
# wait, and other keys are served alone.
sub undisturbed {
    my ($self, $sem, $from, $to) = @_;
    my $windows = $self->{windows};
    my $idle = $self->{idle} //= [ [ ($self->{conf}{begin}) x 2 ],
        map { [ $_->{began} // $_->{t}, $_->{t} ] } @{ $self->{logs}{state} } ];
    return !(grep { $_->[0] <= $to && $_->[1] + BEGINS > $from } @$idle)
        && $windows->calm($from - 1, $to)
        && !$windows->ordered($sem, $from - 1, $to)
        && !$windows->during('random_keys', $from - 1, $to);
}

# The permit time of keys that always wait, by share.
sub unequal {
    my ($self, $sem) = @_;
    my (%time, %n);
    for my $event (grep { $_->[0] eq '+' && $_->[3] eq $sem }
        @{ $self->{logs}{backend} })
    {
        my $r = $self->{logs}{request}{ $event->[2] } // next;
        my $key = $self->key($r) // next;
        my ($from, $to) = @{ $self->started($event->[2]) };
        next if $key->{within} || !defined $to
            || !$self->undisturbed($sem, $from, $to);
        $time{ $r->[KEY] } += ($to - $from) / $key->{share};
        $n{ $r->[KEY] }++;
    }
    return unless %n && min(values %n) >= SERVED;
    $self->{figures}{"permit time by share, $sem"} = join ' ', map {
        sprintf '%s %.1f', $_, $time{$_} } sort keys %time;
    my ($least, $most) = (min(values %time), max(values %time));
    return $most > UNEQUAL * $least ? sprintf '%s: by share one key has %.1f '
        . 's of permits, another %.1f s', $sem, $most, $least : ();
}

# A request that has waited long: the permits were in use nearly all the time.
sub conserving {
    my ($self) = @_;
    my ($requests, $verdicts) = @{ $self->{logs} }{qw(request verdict)};
    my $free = $self->free;
    my $most = FREE * $self->{conf}{factor};
    my @wrong;
    $self->{figures}{$_} //= 0 for qw(conserving waited);
    for my $nonce (keys %$verdicts) {
        my ($r, $v) = ($requests->{$nonce}, $verdicts->{$nonce});
        next if !$r || $v->[V_DSEM] !~ /^(?:QUEUED|TIMEOUT)$/
            || $r->[KIND] eq 'slow';
        my ($from, $to) = ($v->[V_ARRIVAL], $v->[V_ARRIVAL] + $v->[V_WAIT]);
        next unless $self->{windows}->calm($from, $to);
        $self->{figures}{conserving}++;
        next if $v->[V_WAIT] < $most
            || $self->{windows}->ordered($r->[SEM], $from, $to);
        $self->{figures}{waited}++;
        for my $span (@{ $free->{ $r->[SEM] } // [] }) {
            my $both = min($to, $span->[1]) - max($from, $span->[0]);
            next if $both <= $most;
            push @wrong, sprintf '%s: %s waits for %.3f s beside a free permit '
                . 'of %s', $self->at($from), $nonce, $both, $r->[SEM];
        }
    }
    return @wrong;
}

# Spans of time, by semaphore, in which the heaviest request would have had a
# permit, of a pool at any server. With keys, where requests wait for long, and
# with limit=auto a start ends a span: on a busy machine few permits may be in
# use for long.
sub free {
    my ($self) = @_;
    my (%told, %level, %by, %since, %free);
    my $most = FREE * $self->{conf}{factor};
    for my $event (@{ $self->{logs}{backend} }) {
        my ($sign, $time, $nonce, $sem, $weight) = @$event;
        if ($sign eq '-') {
            ($sem, $weight) = @{ delete $by{$nonce} // next };
            $weight = -$weight;
        } else {
            $by{$nonce} = [$sem, $weight];
        }
        $level{$sem} += $weight;
        my $of = $self->{conf}{semaphores}{$sem};
        my $ends = $sign eq '+' && ($of->{keys} || $of->{min});
        my $heaviest = $sem eq 'fifty' ? 3 : 1;
        $told{$sem} = $event->[7] if $of->{min} && $sign eq '+';
        my $room = ($told{$sem} // $of->{limit} * @{ $of->{servers} // [1] })
            - $heaviest;
        my $is_free = $level{$sem} <= $room;
        # when it began, and its highest level: the limit may have been lowered
        my ($since, $high) = @{ delete $since{$sem} // [$time, $level{$sem}] };
        push @{ $free{$sem} }, [$since, $time] if $time - $since > $most
            && ($ends ? $high <= $room : !$is_free);
        $since{$sem} = $ends ? [$time, $level{$sem}] : [$since, $high]
            if $is_free;
    }
    return \%free;
}

1;
