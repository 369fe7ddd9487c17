package Fleet::Demo;

# The demonstration: load on both nodes, well above the limit, and its result.
# The backend's own count decides whether the limit held; statuses are those
# that clients received, waits those of nginx's access log.
#
# Called by: fleet.pl.

use strict;
use warnings;

use List::Util qw(min sum0);

use Dsem::Load;
use Dsem::Wait qw(now);

use Fleet::Judge;
use Fleet::Machine;
use Fleet::Watch;

# offered load / what the limit allows
use constant OVERLOAD => 1.3;

# seconds until the queue is full, half of the load at most; goodput is measured
# from then on
use constant WARM_UP => 1;

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

# Calls what $progress returns, for each part, with the current state four times
# a second.
sub run {
    my ($self, $progress) = @_;
    my $fleet = $self->{fleet};
    $self->{machine} = Fleet::Machine->measure($fleet, $progress->());
    $fleet->backend->reset;
    $self->{begin} = now;
    my $load = Dsem::Load->new($fleet, rate => $self->{rate},
        seconds => $self->{seconds}, keepalive => 1, records => 1,
        timeout => 60,
        urls => [map { $fleet->url($_) . '/reports/' } $fleet->names]);
    Fleet::Watch::run($fleet, $load, 'reports', $progress->());
    $self->{load} = $load->wait;
    $self->{machine}->end;
    $fleet->expect_settled('reports');
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
        goodput => $self->goodput, machine => $self->{machine},
    };
    $result->{verdict} = Fleet::Judge::first({ %$result,
        status => $result->{fleet}{status} });
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
    my ($begin, $seconds) = @$self{qw(begin seconds)};
    return Fleet::Watch::answered($self->{fleet},
        $begin + min(WARM_UP, $seconds / 2), $begin + $seconds);
}

1;
