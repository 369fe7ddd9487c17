#!/usr/bin/perl

# make bench-hold runs: all has its figures. What it measures in a short run is
# no matter here.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Bench qw(said);

local @ENV{qw(HOLDERS SECONDS ROUNDS)} = (100, 0.1, 3);
my $said = said('hold');

my @figures = $said =~ /^ *\w.*? {2,}-?\d+(?:\.\d+)?(?: |$)/mg;
is scalar(@figures), 9, 'all measured' or diag $said;
my @verdicts = $said =~ /(?:OK|MISSED)$/mg;
is scalar(@verdicts), 3, 'all aims printed' or diag $said;

done_testing();
