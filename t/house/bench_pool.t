#!/usr/bin/perl

# make bench-pool runs: each subject has its figures, and no request comes to a
# server of a pool whose slot is taken. How fast a short run is is no matter
# here.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Bench qw(said);

local @ENV{qw(ROUNDS SECONDS SESSIONS)} = (1, 0.3, 40);
my $said = said('pool');

my @rows = $said =~ /^limit=\S+.*? = .*?(?: +\d+\.\d){2}$/mg;
is scalar(@rows), 6, 'each subject measured with both loads' or diag $said;
my @calls = $said =~ /^\w.*? +\d+ +\d+\.\d\d$/mg;
is scalar(@calls), 15, 'scripts measured' or diag $said;
my @verdicts = $said =~ /(?:OK|MISSED)$/mg;
is scalar(@verdicts), 7, 'all aims printed' or diag $said;
my @taken = $said =~ /: at a taken slot +0 +0 OK$/mg;
is scalar(@taken), 2, 'none at a taken slot of a pool' or diag $said;
unlike $said, qr/^requests that ended with/m, 'no other status';

done_testing();
