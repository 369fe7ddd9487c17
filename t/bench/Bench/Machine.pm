package Bench::Machine;

# The machine of a measurement, printed above the figures: they depend on it.
#
# Called by: bench.pl, fair.pl, scale.pl.

use strict;
use warnings;

use Bench::Proc;

my %VERSION = (
    nginx => 'nginx -v 2>&1', Redis => 'redis-server --version',
    HAProxy => 'haproxy -v', wrk => 'wrk -v 2>&1',
);

sub first {
    my ($path, $re) = @_;
    open my $fh, '<', $path or return 'unknown';
    my ($found) = map { /$re/ ? $1 : () } <$fh>;
    return $found // 'unknown';
}

sub version {
    my ($name) = @_;
    local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/usr/local/sbin";
    my ($version) = qx($VERSION{$name}) =~ /(\d+(?:\.\d+)+)/;
    return "$name " . ($version // 'unknown');
}

sub lines {
    my (@names) = @_;
    my $cpus = Bench::Proc::cpus();
    return (
        sprintf('CPU     %s, %d of them', first('/proc/cpuinfo',
            qr/^model name\s*:\s*(.*)/), $cpus),
        'kernel  ' . first('/proc/version', qr/^Linux version (\S+)/)
            . ', load ' . first('/proc/loadavg', qr/^(\S+ \S+ \S+)/)
            . ' when it began',
        'with    ' . join(', ', map { version($_) } @names),
    );
}

1;
