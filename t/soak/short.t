#!/usr/bin/perl

# The soak, for 45 s: three nodes, mixed clients, a single Redis, then
# Sentinel, then a Cluster, with faults of all of them, and not one violation.
# DSEM_LONG=1: ten minutes.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Path qw(remove_tree);

use Dsem::Wait qw(now took time_factor);

my ($SECONDS, $SEED) = $ENV{DSEM_LONG} ? (600, 2) : (45, 3997);
# other tests run beside it
my $RATE = 0.4;
local $ENV{DSEM_TIME_FACTOR} = 2 * time_factor;

my $root = "$FindBin::Bin/../..";
my $dir = "$root/build/t/soak/short";

remove_tree($dir);
my $begun = now;
my @said = qx($^X -I$root/t/lib $root/t/soak/soak.pl --seconds=$SECONDS \\
    --seed=$SEED --rate=$RATE --dir=$dir 2>&1);
my $status = $? >> 8;
my $said = join '', @said;
# the part of its time that the machine gave
my $given = took($begun) / (now - $begun);

is $status, 0, 'no violation';
ok scalar($said =~ /^0 violations$/m), 'all phases checked' or diag $said;

# what was counted, from the tables
my %sum = map { /^  (\S+) .* (\d+)$/ ? ($1 => $2) : () } @said;
cmp_ok $sum{200} // 0, '>', 40 * $SECONDS * $given,
    'many requests served';
cmp_ok $sum{QUEUED} // 0, '>', 10 * $SECONDS * $given,
    'many of them queued';
cmp_ok $sum{$_} // 0, '>', 0, "clients: $_" for qw(keep close h2 abort slow);
my ($faults) = $said =~ /^faults .*?\n(.*?)^ +\d/ms;
cmp_ok scalar(() = ($faults // '') =~ /\n/g), '>=', 10, 'kinds of faults';

remove_tree($dir) if Test::More->builder->is_passing && !$ENV{DSEM_KEEP};
done_testing();
