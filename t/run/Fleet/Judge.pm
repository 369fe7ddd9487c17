package Fleet::Judge;

# What the figures of an act say. A limit that was exceeded, a permit that did
# not come back, or a request that ended otherwise than with 200 or 503 is a
# failure on any machine. What needs time to happen is a failure on a machine
# that gave the fleet its time; on another one it could not be judged, and that
# is said.
#
# Called by: Fleet::Demo, Fleet::Second, Fleet::Third; Fleet::Screen for the
# sentences. Knows nothing of processes.

use strict;
use warnings;

# a quiet machine: of the target without a limit, at least; of the time, and
# seconds at once, at most
use constant { BASELINE => 0.8, STALLED => 0.5, AT_ONCE => 0.1 };

# In words, why a machine was too busy; nothing for a quiet one. baseline and
# target: answers per second without a limit; stalled: part of the time;
# longest: seconds at once.
sub busy {
    my ($machine) = @_;
    my ($baseline, $target, $stalled, $longest)
        = @$machine{qw(baseline target stalled longest)};
    return sprintf '%d/s of %d/s', $baseline, $target
        if $baseline < BASELINE * $target;
    return sprintf 'it stalled for %.0f %% of the time', 100 * $stalled
        if $stalled > STALLED;
    return sprintf 'it stalled for %.2f s at once', $longest
        if $longest > AT_ONCE;
    return;
}

# wrong: failures; unjudged: what would be one on a quiet machine; busy: why
# this one was not quiet.
sub verdict {
    my ($machine, $certain, $timed) = @_;
    my $busy = busy($machine);
    return {
        busy => $busy, wrong => [ @$certain, $busy ? () : @$timed ],
        unjudged => [ $busy ? @$timed : () ],
    };
}

# result: peak, limit, status => {code or word => requests}, machine.
sub first {
    my ($result) = @_;
    my ($peak, $limit) = @$result{qw(peak limit)};
    my @other = unexpected($result->{status});
    return verdict($result->{machine}, [
        $peak > $limit ? "the backend served $peak at once" : (),
        @other ? 'some requests ended with ' . join ', ', @other : (),
    ], [
        $result->{status}{timeout} ? 'some requests ended with timeout' : (),
        $peak < $limit ? "the limit was not reached, the peak was $peak" : (),
    ]);
}

# Parts, without "fair=" and with it, then those with a backend that has a knee:
# name, peak, limit, status; the first two also rejected (of quiet tenants) and
# machine, that of their own time.
sub second {
    my ($shared, $fair, @knee) = @_;
    # the last parts on the machine of those before
    my @part = (verdict($shared->{machine}, [exceeded($shared)], [
        map({ late($_) } $shared, @knee),
        $shared->{peak} < $shared->{limit} ? 'the limit was not reached' : (),
        $shared->{rejected} ? ()
            : 'without "fair=" no request of a quiet tenant was rejected',
    ]), verdict($fair->{machine}, [exceeded($fair)], [
        late($fair),
        $fair->{rejected}
            ? 'with "fair=" requests of quiet tenants were rejected' : (),
    ]));
    return {
        busy => $part[0]{busy} // $part[1]{busy},
        wrong => [ map({ @{ $_->{wrong} } } @part),
            map { exceeded($_) } @knee ],
        unjudged => [ map { @{ $_->{unjudged} } } @part ],
    };
}

# Parts, with a limit of the total and with one for each server: name, peak (of
# the server with most requests at once), limit, status. No machine is too busy
# for this.
sub third {
    my ($total, $pool) = @_;
    return { wrong => [ map { exceeded($_, 'a server had') } $total, $pool ] };
}

# Failures of one part of an act.
sub exceeded {
    my ($part, $served) = @_;
    my @other = unexpected($part->{status});
    $served //= 'the backend served';
    return (
        $part->{peak} > $part->{limit}
            ? "$served $part->{peak} requests of $part->{name} at once" : (),
        @other ? "requests of $part->{name} ended with "
            . join ', ', @other : (),
    );
}

# A client has given up: on a busy machine that says nothing.
sub late {
    my ($part) = @_;
    return $part->{status}{timeout}
        ? "requests of $part->{name} ended with timeout" : ();
}

sub unexpected {
    my ($status) = @_;
    return grep { !/^(?:200|503|timeout)$/ } sort keys %$status;
}

# Sentences for the screen.
sub too_busy {
    my ($verdict, $what, $held) = @_;
    return ("This machine is too busy to judge$what ($verdict->{busy}); "
        . "$held.", map { "Not judged: $_." } @{ $verdict->{unjudged} });
}

1;
