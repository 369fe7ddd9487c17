#!/usr/bin/perl

# The soak, for 45 s: three nodes, mixed clients, a single Redis, Sentinel, and
# a Cluster, with faults of all of them, and not one violation. The three phases
# run beside each other, at a lower rate, without the pool. DSEM_LONG=1: ten
# minutes, with all.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", $FindBin::Bin;

use File::Path qw(remove_tree);

use Dsem::Wait qw(now took time_factor);

use Soak::Schedule;

my ($SECONDS, $SEED) = $ENV{DSEM_LONG} ? (600, 2) : (45, 3997);
# other tests run beside it
my $RATE = 0.2;
local $ENV{DSEM_TIME_FACTOR} = 2 * time_factor;

my $root = "$FindBin::Bin/../..";
my $dir = "$root/build/t/soak/short";

remove_tree($dir);
my $begun = now;
my @run = map {
    my @command = ($^X, "-I$root/t/lib", "$root/t/soak/soak.pl",
        "--seconds=$SECONDS", "--seed=$SEED", "--rate=$RATE", "--phase=$_",
        "--dir=$dir", $ENV{DSEM_LONG} ? () : '--no-pool');
    open my $from, '-|', "@command 2>&1" or die "fork: $!";
    { phase => $_, from => $from };
} @Soak::Schedule::PHASES;

my (%sum, %faults);
for my $run (@run) {
    my ($phase, $from) = @$run{qw(phase from)};
    my $said = join '', my @said = <$from>;
    close $from;
    is $? >> 8, 0, "$phase: no violation";
    ok scalar($said =~ /^0 violations$/m), "$phase: checked" or diag $said;

    # what was counted, from the tables
    /^  (\S+) .* (\d+)$/ and $sum{$1} += $2 for @said;
    my ($faults) = $said =~ /^faults .*?\n(.*?)^ +\d/ms;
    $faults{$_} = 1 for ($faults // '') =~ /^ +([a-z]\w*)/mg;
}
# the part of its time that the machine gave
my $given = took($begun) / (now - $begun);

cmp_ok $sum{200} // 0, '>', 40 * $SECONDS * $given,
    'many requests served';
cmp_ok $sum{QUEUED} // 0, '>', 10 * $SECONDS * $given,
    'many of them queued';
cmp_ok $sum{$_} // 0, '>', 0, "clients: $_" for qw(keep close h2 abort slow);
cmp_ok scalar keys %faults, '>=', 10, 'kinds of faults';

remove_tree($dir) if Test::More->builder->is_passing && !$ENV{DSEM_KEEP};
done_testing();
