package Dsem::Ports;

# Ports of this test, and of no other that runs at the same time: a server
# that was killed finds its own free when it comes back. All are below the
# range from which outgoing connections take theirs, so that no client sits
# on one meanwhile.
#
# Called by: Dsem::Test (free_port).

use strict;
use warnings;

use Carp qw(croak);
use IO::Socket::INET;

use constant { FIRST => 10_000, BLOCK => 200, BLOCKS => 110 };

# whoever has the block's first port, of UDP, has the block
my ($claim, $block, $used);

sub free_port {
    claim() unless $claim;
    while (++$used < BLOCK) {
        my $port = $block + $used;
        return $port if IO::Socket::INET->new(LocalAddr => '127.0.0.1',
            LocalPort => $port, Proto => 'tcp', Listen => 1, ReuseAddr => 1);
    }
    croak 'no free port';
}

# Not the same one as the last test's.
sub claim {
    for my $i (0 .. BLOCKS - 1) {
        ($block, $used) = (FIRST + BLOCK * (($$ * 7 + $i) % BLOCKS), 0);
        $claim = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
            LocalPort => $block, Proto => 'udp') and return;
    }
    croak 'no free ports';
}

1;
