#!/usr/bin/perl

# The backend of compose.yaml: a request says in its URL how long it takes, and
# how much longer when others run beside it (?t=50&knee=10&steep=2).
#
#   backend.pl address:port

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use IO::Socket::INET;

use Dsem::Control;
use Dsem::Oracle;

my $address = shift // die "usage: backend.pl address:port\n";
my $listen = IO::Socket::INET->new(LocalAddr => $address, Proto => 'tcp',
    Listen => 4096, ReuseAddr => 1) // die "$address: $!\n";
$SIG{PIPE} = 'IGNORE';

# its requests are not kept, it may run for days
Dsem::Oracle::run([$listen],
    Dsem::Control::listen_on(tempdir(CLEANUP => 1) . '/control'),
    stream => '/dev/null');
