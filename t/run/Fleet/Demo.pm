package Fleet::Demo;

# The demonstration: load through both nodes, well above the cap, and what
# came of it. The backend's own count is the truth about the cap; clients
# tell what they were answered, and nginx's access log how long they waited.
#
# Called by: fleet.pl.

use strict;
use warnings;

use List::Util qw(sum0);

use Dsem::Load;
use Dsem::Wait qw(now poll);

# the rate is so far above what the cap lets through
use constant OVERLOAD => 1.3;

# the queue has filled by then: goodput is measured from here on
use constant WARM_UP => 1;

# seconds of the measurement without a cap; the first part is not counted
use constant UNCAPPED => 0.6;
use constant UNCAPPED_WARM_UP => 0.1;

sub new {
    my ($class, $fleet, %opt) = @_;
    my $self = bless { fleet => $fleet, %opt }, $class;
    $self->{ideal} = $fleet->semaphore->{limit} / $fleet->service;
    $self->{rate} = int($self->{ideal} * OVERLOAD);
    return $self;
}

sub rate { $_[0]{rate} }
sub ideal { $_[0]{ideal} }
sub seconds { $_[0]{seconds} }

# Answers of the backend per second without a cap, with as many requests at
# a time as the limit: a machine that is slow or busy is so for both.
sub measure_uncapped {
    my ($self) = @_;
    my $fleet = $self->{fleet};
    my $begin = now;
    Dsem::Load->new($fleet, clients => $fleet->semaphore->{limit},
        seconds => UNCAPPED, keepalive => 1,
        urls => [map { $fleet->url($_) . '/uncapped/' } $fleet->names],
    )->wait;
    return $self->{uncapped} = $self->answered($begin + UNCAPPED_WARM_UP,
        $begin + UNCAPPED);
}

# Tells $progress four times a second how things stand.
sub run {
    my ($self, $progress) = @_;
    my $fleet = $self->{fleet};
    $self->measure_uncapped;
    $fleet->backend->reset;
    $self->{begin} = now;
    my $load = Dsem::Load->new($fleet, rate => $self->{rate},
        seconds => $self->{seconds}, keepalive => 1, records => 1,
        urls => [map { $fleet->url($_) . '/reports/' } $fleet->names]);
    $self->watch($progress);
    $self->{load} = $load->wait;
    $self->{settled} = poll(sub { $fleet->settled }, 5);
    return $self->result;
}

sub watch {
    my ($self, $progress) = @_;
    my $backend = $self->{fleet}->backend;
    my ($before, $served, $left) = (now, 0, 0);
    while (($left = $self->{begin} + $self->{seconds} - now) > 0) {
        select undef, undef, undef, $left < 0.25 ? $left : 0.25;
        my ($at, $all) = (now, $backend->served);
        $progress->({
            seconds => $at - $self->{begin}, now => $backend->now,
            peak => $backend->peak,
            waiting => $self->{fleet}->waiting // 0,
            rate => ($all - $served) / ($at - $before),
        });
        ($before, $served) = ($at, $all);
    }
}

###########################################################################
# what came of it

sub result {
    my ($self) = @_;
    my %node = map { $_ => $self->of_node($_) } $self->{fleet}->names;
    my $limit = $self->{fleet}->semaphore->{limit};
    my $result = {
        node => \%node, fleet => together(values %node),
        peak => $self->{fleet}->backend->peak, limit => $limit,
        goodput => $self->goodput, uncapped => $self->{uncapped},
        settled => $self->{settled},
    };
    $result->{wrong} = [wrong($result)];
    return $result;
}

sub of_node {
    my ($self, $name) = @_;
    my $url = $self->{fleet}->url($name);
    my %status;
    $status{ $_->{status} }++
        for grep { index($_->{url}, "$url/") == 0 }
        @{ $self->{load}{records} };
    return {
        requests => sum0(values %status), status => \%status,
        waits => [$self->waits($name)],
    };
}

# In seconds, of those who were let through.
sub waits {
    my ($self, $name) = @_;
    return map { / dsem=(?:PASSED|QUEUED) .* wait=([\d.]+)/ ? $1 : () }
        $self->{fleet}->access_log($name);
}

sub together {
    my (@nodes) = @_;
    my %status;
    for my $node (@nodes) {
        $status{$_} += $node->{status}{$_} for keys %{ $node->{status} };
    }
    return {
        requests => sum0(values %status), status => \%status,
        waits => [map { @{ $_->{waits} } } @nodes],
    };
}

# Answers of the backend per second, while the load was there in full.
sub goodput {
    my ($self) = @_;
    return $self->answered($self->{begin} + WARM_UP,
        $self->{begin} + $self->{seconds});
}

# Per second, in this time.
sub answered {
    my ($self, $from, $to) = @_;
    my @answered = grep {
        $_->{how} eq 'answered' && $_->{end} >= $from && $_->{end} < $to
    } $self->{fleet}->backend->log;
    return @answered / ($to - $from);
}

# What must not be: an empty list says that the cap held, and was reached.
sub wrong {
    my ($result) = @_;
    my ($peak, $limit) = @$result{qw(peak limit)};
    my @other = grep { !/^(?:200|503)$/ }
        sort keys %{ $result->{fleet}{status} };
    return (
        $peak > $limit ? "the backend served $peak at once" : (),
        $peak < $limit ? "the cap was not reached, the peak was $peak" : (),
        @other ? 'some requests ended with ' . join ', ', @other : (),
        $result->{settled} ? () : 'permits are out after the last answer',
    );
}

1;
