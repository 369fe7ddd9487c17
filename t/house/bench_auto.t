#!/usr/bin/perl

# make bench-auto runs: every case has its figures, and the limit in force is
# held meanwhile. What it finds in a short run is no matter here.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Bench qw(said);
use Dsem::Wait qw(time_factor);

# fewer clients are waited for at the end of each case
local $ENV{SECONDS} = 1;
local $ENV{CLIENTS} = 50;
# other tests run beside it
local $ENV{DSEM_TIME_FACTOR} = 2 * time_factor;
my $said = said('auto');

my @cases = $said =~ /^\w.*?(?: +\d+(?:\.\d)?){3}$/mg;
is scalar(@cases), 5, 'all cases measured' or diag $said;
my @curves = $said =~ /: the limit\n-+\n(?: +\d+ \|.*\n){10}/g;
is scalar(@curves), 3, 'limits shown';
my @verdicts = $said =~ /(?:OK|MISSED)$/mg;
is scalar(@verdicts), 10, 'all aims printed' or diag $said;
like $said, qr/^cap in force exceeded at the backend +0 +0 OK$/m,
    'limit in force held' or diag $said;
unlike $said, qr/^requests that ended with/m, 'no other status';

done_testing();
