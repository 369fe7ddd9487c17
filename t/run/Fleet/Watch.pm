package Fleet::Watch;

# The state of the fleet while a load runs, four times a second.
#
# Called by: Fleet::Demo, Fleet::Second.

use strict;
use warnings;

use Dsem::Wait qw(now);

use constant STEP => 0.25;

# Calls $progress for so many seconds; waiting is that of this semaphore.
sub run {
    my ($fleet, $seconds, $name, $progress) = @_;
    my $backend = $fleet->backend;
    my $begin = now;
    my ($before, $served, $left) = ($begin, $backend->served, 0);
    while (($left = $begin + $seconds - now) > 0) {
        select undef, undef, undef, $left < STEP ? $left : STEP;
        my ($at, $all) = (now, $backend->served);
        $progress->({
            seconds => $at - $begin, now => $backend->now,
            peak => $backend->peak, waiting => $fleet->waiting($name) // 0,
            rate => ($all - $served) / ($at - $before),
        });
        ($before, $served) = ($at, $all);
    }
}

1;
