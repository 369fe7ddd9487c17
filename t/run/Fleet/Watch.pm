package Fleet::Watch;

# The state of the fleet while a load runs, four times a second.
#
# Called by: Fleet::Demo, Fleet::Second, Fleet::Third, Fleet::Machine.

use strict;
use warnings;

use Dsem::Wait qw(now);

use constant STEP => 0.25;

# Calls $progress until the load has ended, with its last response; waiting is
# that of this semaphore, if there is one. The backend is that of the fleet, or
# another one.
sub run {
    my ($fleet, $load, $name, $progress, $backend) = @_;
    $backend //= $fleet->backend;
    my $begin = now;
    my ($before, $served) = ($begin, $backend->served);
    until ($load->ready(STEP)) {
        my ($at, $all) = (now, $backend->served);
        $progress->({
            seconds => $at - $begin, now => $backend->now,
            peak => $backend->peak, rate => ($all - $served) / ($at - $before),
            waiting => $name && $fleet->waiting($name) || 0,
        });
        ($before, $served) = ($at, $all);
        $fleet->look;
    }
}

# Responses of the backend per second, in this time.
sub answered {
    my ($fleet, $from, $to) = @_;
    my @answered = grep {
        $_->{how} eq 'answered' && $_->{end} >= $from && $_->{end} < $to
    } $fleet->backend->log;
    return @answered / ($to - $from);
}

1;
