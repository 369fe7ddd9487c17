package Soak::Check;

# The invariants. Each check is given the logs of one phase, returns its
# violations, one sentence each, and adds to the figures.
#
# Called by: check.pl.

use strict;
use warnings;

use List::Util qw(max min);

use Soak::Logs;
use Soak::Windows;

use parent 'Soak::Queue';

BEGIN {
    no strict 'refs';
    *{$_} = \&{"Soak::Logs::$_"} for qw(KIND NODE SEM WEIGHT START FINISH STATUS
        REUSED ECHO V_TIME V_STATUS V_DSEM V_WAIT V_POSITION V_PID V_ARRIVAL);
}

# s: how old the limits may be that requests of limit=auto were told: a request
# is let in before it is at the backend, and a worker to which Redis replies
# late serves its own requests with its permits; where workers come, go or
# reconnect
use constant { LET_IN => 0.3, LET_IN_LATE => 1.2 };

# keys of "fair" in Redis beside those of requests that wait, as
# lua/include/fair_trim.lua leaves them: FAIR_KEYS and FAIR_EXCESS
use constant TAGS => 1024 + 16;

# s: a client that reads slowly, on a busy machine; until a request that is
# answered is in the access log: its worker may be killed before
use constant { SLOW => 10, LOGGED => 1 };

# s before quiet in which every semaphore is asked for: one whose Redis was
# another one since keeps accounts that are void until it is asked for
use constant ASKED => 3;

# KB and files that a process may grow, and how many times of quiet it takes to
# tell: a master has more after its first reload
use constant { KB => 3072, FILES => 16, QUIETS => 4 };

our @CHECKS = (
    [limit => 'never more than the limit at the backend'],
    [reached => 'the limit is reached'],
    [bounds => 'a limit that is found stays within its bounds'],
    [answered => 'every request is answered'],
    [served => 'served at the backend exactly once'],
    [refused => 'every refusal has its reason'],
    [in_time => 'answered in time'],
    [order => 'first come, first served'],
    [shared => 'permits are shared fairly by key'],
    [conserving => 'no permit is free while a request waits'],
    [agree => 'workers and Redis count the same'],
    [left => 'nothing is left when it is quiet'],
    [flat => 'memory and descriptors are flat'],
    [logs => 'no crash and no alert'],
    [carried_out => 'every fault was carried out'],
);

sub new {
    my ($class, $logs) = @_;
    return bless { logs => $logs, conf => $logs->{conf},
        windows => Soak::Windows->new($logs), figures => {} }, $class;
}

# { check => [violations] }
sub run {
    my ($self) = @_;
    $self->count;
    return { map { my ($name) = @$_; $name => [ $self->$name ] } @CHECKS };
}

sub semaphores { sort keys %{ $_[0]{conf}{semaphores} } }

sub at {
    my ($self, $time) = @_;
    return sprintf '%.3f s', $time - $self->{conf}{begin};
}

sub count {
    my ($self) = @_;
    my $figures = $self->{figures};
    for my $r (values %{ $self->{logs}{request} }) {
        $figures->{requests}{ $r->[STATUS] }++;
        $figures->{kinds}{ $r->[KIND] }++;
    }
    $figures->{verdicts}{ $_->[V_DSEM] }++
        for values %{ $self->{logs}{verdict} };
    $figures->{faults}{ $_->{kind} }++ for @{ $self->{windows}{faults} };
    $figures->{$_} = sprintf '%.0f s', $self->{logs}{$_} for qw(busy stood);
}

###########################################################################
# the limit

# Plays the log of the backend: at each start, the weight that runs, of a pool
# at the server.
sub limit {
    my ($self) = @_;
    my (%running, %level, %by, %told, @wrong);
    my ($windows, $figures) = @$self{qw(windows figures)};
    for my $event (@{ $self->{logs}{backend} }) {
        my ($sign, $time, $nonce) = @$event;
        if ($sign eq '-') {
            my $of = delete $by{$nonce} // next;
            my $at = where($of);
            $level{$at} -= $of->[4];
            delete $running{$at}{$nonce};
            next;
        }
        my ($sem, $weight) = @$event[3, 4];
        my $at = where($event);
        $by{$nonce} = $running{$at}{$nonce} = $event;
        my $now = $level{$at} += $weight;
        my $limit = $windows->limit($sem, $time);
        if ($self->found($sem)) {
            my $found = $self->in_force($told{$sem} //= {}, $event,
                values %{ $running{$at} });
            $limit = min($limit, $found);
            $self->{at_limit}{$sem}++ if $now == $found;
        }
        $figures->{peak}{$sem} = max($figures->{peak}{$sem} // 0, $now);
        $self->{peak}{$at} = max($self->{peak}{$at} // 0, $now);
        next if $now <= $limit;
        my $share = $windows->share($sem, $time);
        my $excused = 0;
        $excused += $_->[4] for grep {
            $windows->excused(@$_[6, 5], $_->[1], $time)
                || $self->too_late($_)
        } values %{ $running{$at} };
        $figures->{overage}{$sem} = max($figures->{overage}{$sem} // 0,
            $now - $limit) if $now - $limit <= $share + $excused;
        push @wrong, sprintf '%s: %s: %d running, limit %d, %d excused (%s)',
            $self->at($time), $at, $now, $limit, $share + $excused, $nonce
            if $now - $limit > $share + $excused;
    }
    return @wrong, map { "$_ has not ended at the backend" } sort keys %by;
}

# What has a limit of its own: the semaphore, or the server of a pool.
sub where {
    my ($event) = @_;
    return join '@', $event->[3], $event->[8] // ();
}

# True if the limit is one that the fleet finds.
sub found {
    my ($self, $sem) = @_;
    my $of = $self->{conf}{semaphores}{$sem};
    return $of && defined $of->{min};
}

# The highest limit told to a request that runs, or that has started lately: the
# last one that was let in is among them. No request is let in beyond the limit
# that it is told, but those of before may have been told a higher one, and one
# with an idle permit may not know yet of a lower one. Without Redis a worker's
# own permits serve its requests until its fence, which is within the lease.
sub in_force {
    my ($self, $told, $event, @running) = @_;
    my $time = $event->[1];
    my $limit = max(map { $_->[7] } @running);
    my $factor = $self->{conf}{factor};
    my $lease = $self->{conf}{lease};
    for my $for (LET_IN, LET_IN_LATE, $lease) {
        my $latest = $told->{$for} //= [];
        my $since = $time - $for * $factor;
        shift @$latest while @$latest && $latest->[0][0] < $since;
        pop @$latest while @$latest && $latest->[-1][1] <= $event->[7];
        push @$latest, [$time, $event->[7]];
    }
    my ($lost, $late) = map { $self->{windows}->touches($_, $time, $time) }
        qw(lost order);
    my $for = $lost ? $lease : $late ? LET_IN_LATE : LET_IN;
    return max($limit, $told->{$for}[0][1]);
}

# Limits that requests are told are within the bounds, or that of an order.
# Without Redis a request is told what its worker may have.
sub bounds {
    my ($self) = @_;
    my (@wrong, %seen);
    for my $event (@{ $self->{logs}{backend} }) {
        my ($sign, $time, $nonce, $sem, $limit) = @$event[0 .. 3, 7];
        next if $sign ne '+' || !$self->found($sem);
        my $of = $self->{conf}{semaphores}{$sem};
        my $seen = $seen{$sem} //= { low => $limit, high => $limit, moves => 0,
            last => $limit };
        $seen->{low} = min($seen->{low}, $limit);
        $seen->{high} = max($seen->{high}, $limit);
        $seen->{moves}++ if $seen->{last} != $limit;
        $seen->{last} = $limit;
        my $alone = $self->{windows}->touches('unavailable', $time, $time);
        next if ($alone || $limit >= $of->{min}) && $limit <= $of->{limit}
            || $self->{windows}->was_ordered($sem, $limit, $time);
        push @wrong, sprintf '%s: %s: %s is told a limit of %s',
            $self->at($time), $sem, $nonce, $limit;
    }
    $self->{figures}{"limits of $_"} = "$seen{$_}{low} to $seen{$_}{high}, "
        . "$seen{$_}{moves} moves" for sort keys %seen;
    return @wrong;
}

# True if a request reached the backend after its client had aborted it: nginx
# may have closed the connection before the backend accepted it.
sub too_late {
    my ($self, $start) = @_;
    my $r = $self->{logs}{request}{ $start->[2] };
    return $r && $r->[STATUS] eq 'aborted' && $r->[FINISH] < $start->[1];
}

# Clients that share a machine with much else do not have enough requests at a
# time.
sub reached {
    my ($self) = @_;
    my ($begin, $end) = ($self->{conf}{begin},
        max($self->{conf}{begin}, map { $_->{t} } @{ $self->{logs}{state} }));
    return if $self->{windows}->stall($begin, $end) > ($end - $begin) / 2;
    return map {
        my ($sem, $of) = ($_, $self->{conf}{semaphores}{$_});
        $self->found($sem)
            ? $self->{at_limit}{$sem} ? () : "$sem: never the limit in force"
            : map {
                my $peak = $self->{peak}{$_} // 0;
                $peak < $of->{limit} ? "$_: at most $peak, limit $of->{limit}"
                    : ();
            } $of->{servers} ? map { "$sem\@$_" } @{ $of->{servers} } : $sem;
    } $self->semaphores;
}

###########################################################################
# requests and verdicts

sub answered {
    my ($self) = @_;
    my @wrong;
    my $requests = $self->{logs}{request};
    for my $nonce (keys %$requests) {
        my ($kind, $node, $sem, undef, $start, $end, $status, $reused, $echo)
            = @{ $requests->{$nonce} };
        push @wrong, "$nonce: has the response of another request"
            unless $echo;
        next if $status =~ /^(?:200|503|aborted)$/;
        push @wrong, sprintf '%s: %s on %s, %s, %s', $self->at($start), $nonce,
            $node, $kind, $status
            if $status =~ /^\d|timeout/ || !$self->{windows}->may_end($node,
                $status, $reused, $start, $end);
    }
    return @wrong, map { "$_: two verdicts" } @{ $self->{logs}{doubles} // [] };
}

# A response comes from the backend, a refusal does not reach it.
sub served {
    my ($self) = @_;
    my (%starts, %answered, @wrong);
    for my $event (@{ $self->{logs}{backend} }) {
        my ($sign, undef, $nonce, $how) = @$event;
        $starts{$nonce}++ if $sign eq '+';
        $answered{$nonce}++ if $sign eq '-' && $how eq 'answered';
    }
    my $requests = $self->{logs}{request};
    for my $nonce (keys %$requests) {
        my $status = $requests->{$nonce}[STATUS];
        my $n = $starts{$nonce} // 0;
        push @wrong, "$nonce: started $n times" if $n > 1;
        push @wrong, "$nonce: 200, but not answered by the backend"
            if $status eq '200' && !$answered{$nonce};
        push @wrong, "$nonce: 503, but at the backend"
            if $status eq '503' && $n;
    }
    return @wrong, map { "$_: at the backend, but sent by no client" }
        grep { !$requests->{$_} } sort keys %starts;
}

# The client's and nginx's status agree; the reasons are possible ones.
sub refused {
    my ($self) = @_;
    my @wrong;
    my ($requests, $verdicts) = @{ $self->{logs} }{qw(request verdict)};
    my $windows = $self->{windows};
    for my $nonce (keys %$requests) {
        my $r = $requests->{$nonce};
        next if $r->[STATUS] !~ /^\d/;
        my $v = $verdicts->{$nonce};
        if (!$v) {
            push @wrong, "$nonce: $r->[STATUS], but not in the access log"
                unless $windows->may_end($r->[NODE], 'cut', 0, $r->[START],
                    $r->[FINISH] + LOGGED);
            next;
        }
        push @wrong, "$nonce: $r->[STATUS], $v->[V_STATUS] in the access log"
            if $r->[STATUS] ne $v->[V_STATUS];
        my $reason = $self->impossible($r, $v) // next;
        push @wrong, sprintf '%s: %s on %s: %s', $self->at($r->[START]),
            $nonce, $r->[NODE], $reason;
    }
    return @wrong;
}

# Why this verdict cannot be; nothing if it can.
sub impossible {
    my ($self, $r, $v) = @_;
    my ($status, $dsem) = @$v[V_STATUS, V_DSEM];
    my $trouble = $self->{windows}->touches('unavailable', $r->[START],
        $r->[FINISH]);
    my $of = $self->{conf}{semaphores}{ $r->[SEM] };
    return if $status eq '200' && $dsem =~ /^(?:PASSED|QUEUED)$/;
    return if $dsem eq 'DEGRADED' && $status eq '200' && $trouble
        && $r->[SEM] eq 'local';
    return if $dsem eq 'ERROR' && $status eq '503' && $trouble;
    return "$dsem with $status" if $status ne '503'
        || $dsem !~ /^(?:REJECTED|TIMEOUT)$/;
    return "timeout after $v->[V_WAIT] s" if $dsem eq 'TIMEOUT'
        && $v->[V_WAIT] < $of->{timeout} - 0.01;
    return if $dsem eq 'TIMEOUT' || $trouble;
    my $flying = $self->flying($r->[SEM], $r->[START], $r->[FINISH]);
    return "rejected beside $flying requests, queue $of->{queue}"
        if $flying < $of->{queue};
    return;
}

# The most requests of a semaphore at one time in a span. One that has not ended
# with a response may be counted until the lease of its worker is over.
sub flying {
    my ($self, $sem, $from, $to) = @_;
    my $steps = $self->{flying}{$sem} //= $self->levels($sem);
    my ($low, $high) = (0, $#$steps);
    while ($low < $high) {
        my $middle = int(($low + $high + 1) / 2);
        $steps->[$middle][0] <= $from ? ($low = $middle) : ($high = $middle - 1);
    }
    my $most = 0;
    for (; $low <= $#$steps && $steps->[$low][0] <= $to; $low++) {
        $most = max($most, $steps->[$low][1]);
    }
    return $most;
}

sub levels {
    my ($self, $sem) = @_;
    my $late = $self->{conf}{lease} + 2;
    my @steps = sort { $a->[0] <=> $b->[0] } map {
        my $r = $_;
        $r->[SEM] eq $sem ? ([$r->[START], 1],
            [$r->[FINISH] + ($r->[STATUS] =~ /^\d/ ? 0 : $late), -1]) : ();
    } values %{ $self->{logs}{request} };
    my $level = 0;
    $_->[1] = $level += $_->[1] for @steps;
    return \@steps;
}

# No longer than queue, service, slow client, stopped worker, a machine that
# stood still, and a grace.
sub in_time {
    my ($self) = @_;
    my @wrong;
    my $factor = $self->{conf}{factor};
    for my $nonce (keys %{ $self->{logs}{request} }) {
        my $r = $self->{logs}{request}{$nonce};
        my $took = $r->[FINISH] - $r->[START];
        my $of = $self->{conf}{semaphores}{ $r->[SEM] };
        my $most = $of->{timeout} + 3 * $factor
            + ($r->[KIND] eq 'slow' ? SLOW : 0);
        next if $took <= $most || $r->[STATUS] !~ /^\d/;
        my $start = $self->started($nonce);
        $most += $start->[1] - $start->[0] if $start;
        $most += $self->{windows}->stopped($r->[NODE], @$r[START, FINISH])
            + $self->{windows}->stall(@$r[START, FINISH]);
        push @wrong, sprintf '%s: %s on %s: %s after %.3f s',
            $self->at($r->[START]), $nonce, @$r[NODE, STATUS], $took
            if $took > $most;
    }
    return @wrong;
}

# Start and end at the backend.
sub started {
    my ($self, $nonce) = @_;
    my $at = $self->{started} //= do {
        my %at;
        for (@{ $self->{logs}{backend} }) {
            push @{ $at{ $_->[2] } }, $_->[1];
        }
        \%at;
    };
    return $at->{$nonce};
}

###########################################################################
# what is left

# A worker that finds another count in Redis than its own resynchronizes, so
# that the limit holds; but then something was lost before.
sub agree {
    my ($self) = @_;
    my $wall = $self->{conf}{wall};
    return grep {
        my ($time) = /: (\S+ \S+) /;
        my $at = Soak::Logs::seconds($time) - $wall;
        # the time has no fraction
        !$self->{windows}->touches('order', $at - 1, $at + 2);
    } $self->{logs}->errors(qr/resynchronizing with redis \(counts differ\)/);
}

sub left {
    my ($self) = @_;
    my ($end, @wrong) = (0);
    for my $fault (grep { defined $_->{tags} } @{ $self->{logs}{faults} }) {
        my $most = TAGS + 4 * max(map { $_->{queue} }
            values %{ $self->{conf}{semaphores} });
        push @wrong, $self->at($fault->{to}) . ": $fault->{tags} keys in Redis"
            if $fault->{tags} > $most;
    }
    for my $at (@{ $self->{logs}{state} }) {
        my $when = "$at->{what} at " . $self->at($at->{t});
        push @wrong, map { "$when: $_" } @{ $at->{left} };
        push @wrong, map { "$when: $_" } grep { /:[sq]:/ }
            @{ $at->{keys} // [] } if $self->asked_since(@$at{qw(began t)});
        push @wrong, map { "$when: slow to quit: $_" } @{ $at->{slow} // [] };
        push @wrong, "$when: $at->{flying} requests without an answer"
            if $at->{flying};
        push @wrong, "$when: $at->{backend} requests at the backend"
            if $at->{backend};
        push @wrong, "$when: sessions are missing"
            if defined $at->{complete} && !$at->{complete};
        if ($at->{what} eq 'end') {
            $end = 1;
            my $n = keys %{ $self->{logs}{request} };
            push @wrong, "$at->{count} requests, $n in the log"
                if $at->{count} != $n;
        }
    }
    return @wrong, $end ? () : 'the run has no end';
}

# True if there was neither a fault nor a promotion after the last requests.
sub asked_since {
    my ($self, $began, $end) = @_;
    my $last = ($began // $end) - ASKED;
    return !grep { $_ > $last && $_ <= $end } @{ $self->{logs}{promotions} },
        map { $_->{to} } @{ $self->{logs}{faults} };
}

# The largest process of the second half is not much larger than that of the
# first.
sub flat {
    my ($self) = @_;
    my @quiet = grep { $_->{what} eq 'quiet' } @{ $self->{logs}{state} };
    my @wrong;
    for my $of (qw(workers masters)) {
        my @kb = map { max(map { $_->{kb} } @{ $_->{$of} }) } @quiet;
        my @files = map { max(map { $_->{files} } @{ $_->{$of} }) } @quiet;
        $self->{figures}{"KB of $of"} = join ' ', map { int } @kb;
        $self->{figures}{"files of $of"} = "@files";
        next if @quiet < QUIETS;
        my $half = int(@quiet / 2);
        my $kb = max(@kb[$half .. $#kb]) - max(@kb[0 .. $half - 1]);
        my $files = max(@files[$half .. $#files])
            - max(@files[0 .. $half - 1]);
        push @wrong, "$of: $kb KB more" if $kb > KB * $self->{conf}{factor};
        push @wrong, "$of: $files more open files" if $files > FILES;
    }
    return @wrong;
}

sub logs {
    my ($self) = @_;
    my ($end) = grep { $_->{what} eq 'end' } @{ $self->{logs}{state} };
    my %killed = map { $_ => 1 } @{ $end ? $end->{killed} : [] };
    return grep {
        my ($pid) = / process (\d+) exited (?:on signal|with fatal)/;
        !($pid && $killed{$pid}) && !$self->stopped_while_exiting($_);
    } $self->{logs}->errors(qr/\[(?:alert|emerg)\]|Sanitizer|runtime\ error:
        |BUG\ REPORT/x);
}

# nginx says this of its own connections, which have a number, where a worker
# that is shutting down gracefully is told to stop at once.
sub stopped_while_exiting {
    my ($self, $line) = @_;
    return 0 if $line !~ /\*[1-9]\d* open socket #\d+ left|: aborting$/;
    my ($node, $time) = $line =~ /^n(\d+): (\S+ \S+) /;
    my $at = Soak::Logs::seconds($time) - $self->{conf}{wall};
    return scalar grep { $_->{kind} eq 'stop_node' && $_->{node} == $node
        && $at >= $_->{from} - 1.5 && $at <= $_->{to} + 0.5 }
        @{ $self->{logs}{faults} };
}

sub carried_out {
    my ($self) = @_;
    return map { "$_->{kind} at " . $self->at($_->{from}) . ": $_->{failed}" }
        grep { $_->{failed} } @{ $self->{logs}{faults} };
}

1;
