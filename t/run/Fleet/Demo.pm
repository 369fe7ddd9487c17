package Fleet::Demo;

# The demonstration: load on both nodes, well above the limit, and its result.
# The backend's own count decides whether the limit held; statuses are those
# that clients received, waits those of nginx's access log.
#
# Called by: fleet.pl.

use strict;
use warnings;

use List::Util qw(sum0);

use Dsem::Load;
use Dsem::Wait qw(now poll);

use Fleet::Watch;

# offered load / what the limit allows
use constant OVERLOAD => 1.3;

# seconds until the queue is full; goodput is measured from then on
use constant WARM_UP => 1;

# seconds of the measurement without a limit; the first part is not counted
use constant UNLIMITED => 0.6;
use constant UNLIMITED_WARM_UP => 0.1;

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

# Answers of the backend per second without a limit, with as many requests
# at a time as the limit: a machine that is slow or busy is so for both.
sub measure_unlimited {
    my ($self) = @_;
    my $fleet = $self->{fleet};
    my $begin = now;
    Dsem::Load->new($fleet, clients => $fleet->semaphore->{limit},
        seconds => UNLIMITED, keepalive => 1,
        urls => [map { $fleet->url($_) . '/unlimited/' } $fleet->names],
    )->wait;
    return $self->{unlimited} = $self->answered($begin + UNLIMITED_WARM_UP,
        $begin + UNLIMITED);
}

# Calls $progress with the current state four times a second.
sub run {
    my ($self, $progress) = @_;
    my $fleet = $self->{fleet};
    $self->measure_unlimited;
    $fleet->backend->reset;
    $self->{begin} = now;
    my $load = Dsem::Load->new($fleet, rate => $self->{rate},
        seconds => $self->{seconds}, keepalive => 1, records => 1,
        urls => [map { $fleet->url($_) . '/reports/' } $fleet->names]);
    Fleet::Watch::run($fleet, $self->{seconds}, 'reports', $progress);
    $self->{load} = $load->wait;
    # idle permits stay for dsem_reuse, 5 s
    $self->{settled} = poll(sub { $fleet->settled('reports') }, 15);
    return $self->result;
}

###########################################################################
# the result

sub result {
    my ($self) = @_;
    my %node = map { $_ => $self->of_node($_) } $self->{fleet}->names;
    my $limit = $self->{fleet}->semaphore->{limit};
    my $result = {
        node => \%node, fleet => together(values %node),
        peak => $self->{fleet}->backend->peak, limit => $limit,
        goodput => $self->goodput, unlimited => $self->{unlimited},
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

# Wait times of the admitted requests, in seconds.
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

# Responses of the backend per second, under full load.
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

# Failures of the demonstration; none: the limit was reached and held.
sub wrong {
    my ($result) = @_;
    my ($peak, $limit) = @$result{qw(peak limit)};
    my @other = grep { !/^(?:200|503)$/ }
        sort keys %{ $result->{fleet}{status} };
    return (
        $peak > $limit ? "the backend served $peak at once" : (),
        $peak < $limit ? "the limit was not reached, the peak was $peak" : (),
        @other ? 'some requests ended with ' . join ', ', @other : (),
        $result->{settled} ? () : 'permits are held after the last response',
    );
}

1;
