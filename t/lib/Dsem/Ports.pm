package Dsem::Ports;

# Ports for this test only, also while other tests run: a server that was killed
# can use the same port again. All are below the range of outgoing connections,
# so that no client takes one meanwhile.
#
# Called by: Dsem::Test (free_port).

use strict;
use warnings;

use Carp qw(croak);
use IO::Socket::INET;

use constant { FIRST => 10_000, BLOCK => 200, BLOCKS => 110 };

# the test that has bound the block's first UDP port owns the block
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

# Claims a free block, starting at another one than the last test.
sub claim {
    for my $i (0 .. BLOCKS - 1) {
        ($block, $used) = (FIRST + BLOCK * (($$ * 7 + $i) % BLOCKS), 0);
        $claim = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
            LocalPort => $block, Proto => 'udp') and return;
    }
    croak 'no free ports';
}

1;
