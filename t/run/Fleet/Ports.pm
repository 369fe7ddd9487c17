package Fleet::Ports;

# Whether a demonstration can have its ports of 127.0.0.1.
#
# Called by: fleet.pl, demo.pl.

use strict;
use warnings;

use Errno qw(EADDRINUSE);
use IO::Socket::INET;

# A sentence that names the unusable ports; nothing when all are usable.
sub unusable {
    my ($target, @ports) = @_;
    my (@busy, @other);
    for my $port (@ports) {
        my $error = fault($port) or next;
        $error == EADDRINUSE ? push @busy, $port
            : push @other, "port $port: $error, nothing was started";
    }
    return $other[0] unless @busy;
    return (@busy > 1 ? 'ports ' . join(', ', @busy) . ' are'
        : "port $busy[0] is") . ' in use, nothing was started; '
        . "\"make $target PORT=9000\" takes other ones";
}

# The error of listening on the port; false when there is none.
sub fault {
    my ($port) = @_;
    return !IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Proto => 'tcp', Listen => 1, ReuseAddr => 1)
        && $!;
}

1;
