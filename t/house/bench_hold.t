#!/usr/bin/perl

# make bench-hold runs: all has its figures. What it measures in a short run is
# no matter here.

use warnings;
use strict;

use Test::More;

use FindBin;

plan skip_all => 'make bench-hold is for the nginx of the distribution'
    if $ENV{DSEM_NGINX} || $ENV{DSEM_STATIC_NGINX};

my $root = "$FindBin::Bin/../..";
local @ENV{qw(HOLDERS SECONDS ROUNDS)} = (100, 0.1, 3);
my $said = qx($^X -I$root/t/lib $root/t/bench/hold.pl 2>&1);

is $?, 0, 'exit status zero' or die $said;
my @figures = $said =~ /^ *\w.*? {2,}-?\d+(?:\.\d+)?(?: |$)/mg;
is scalar(@figures), 9, 'all measured' or diag $said;
my @verdicts = $said =~ /(?:OK|MISSED)$/mg;
is scalar(@verdicts), 3, 'all aims printed' or diag $said;
is scalar(grep { length > 80 } split /\n/, $said), 0, '80 columns'
    or diag $said;

done_testing();
