package Fleet::Machine;

# What this machine gives to the fleet: its answers without a limit, measured
# before an act, and its stalls from then on, those of the metronome.
#
# Called by: Fleet::Demo, Fleet::Second; Fleet::Judge reads the figures.

use strict;
use warnings;

use Dsem::Load;
use Dsem::Metronome;
use Dsem::Wait qw(now);

use Fleet::Watch;

# seconds of the measurement without a limit; the first part is not counted
use constant { UNLIMITED => 0.6, WARM_UP => 0.1 };

# Measures the baseline, with as many requests at a time as the limit: a machine
# that is slow or busy is so for both.
sub measure {
    my ($class, $fleet, $progress) = @_;
    my $limit = $fleet->semaphore->{limit};
    my $begin = now;
    my $load = Dsem::Load->new($fleet, clients => $limit,
        seconds => UNLIMITED, keepalive => 1, timeout => 60,
        urls => [map { $fleet->url($_) . '/unlimited/' } $fleet->names]);
    Fleet::Watch::run($fleet, $load, undef, $progress);
    $load->wait;
    return bless {
        baseline => Fleet::Watch::answered($fleet, $begin + WARM_UP,
            $begin + UNLIMITED),
        target => $limit / $fleet->service, begin => $begin,
    }, $class;
}

# The same from this moment on.
sub again {
    my ($self) = @_;
    return bless { %$self, begin => now }, ref $self;
}

# Notes the stalls until this moment.
sub end {
    my ($self) = @_;
    my ($from, $to) = ($self->{begin}, now);
    my $notes = Dsem::Metronome->new($ENV{DSEM_METRONOME});
    $self->{stalled} = $notes->stalled($from, $to) / ($to - $from);
    $self->{longest} = $notes->longest($from, $to);
    return $self;
}

1;
