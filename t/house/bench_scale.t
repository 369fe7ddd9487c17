#!/usr/bin/perl

# make bench-scale runs: every line is printed, no world ends in an error, and
# the simulated sessions get what they should: all permits of a full semaphore
# stay out, and its queue keeps its length, however often the cycle is repeated.
# What it measures is no matter here.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../bench";

use Bench::Cycle;
use Bench::Edition;
use Bench::Stage;
use Bench::World;

my $root = "$FindBin::Bin/../..";
my $commit = Bench::Edition::FIRST_COMMIT;
plan skip_all => "commit $commit, the first edition, is not in this clone"
    if system "git -C '$root' cat-file -e '$commit^{commit}' 2>/dev/null";

my $stage = Bench::Stage->new('bench_scale');
$stage->redis(Bench::World::redis_args());
my $first = Bench::Edition->new($stage, 'first');
my ($old, $new) = map { Bench::Edition::assemble($_->folder($stage), 'sync') }
    qw(Bench::Edition::First Bench::Edition::Second);

# without a second edition the first one is compared with itself
local $ENV{EDITION} = $old eq $new ? 'first' : '';
local $ENV{ROUNDS} = 1;
local $ENV{SCALE} = 0.01;
local $ENV{CLOCK} = !$ENV{DSEM_LONG};
my $said = qx($^X -I$root/t/lib $root/t/bench/scale.pl 2>&1);

is $?, 0, 'exit status zero' or diag $said;
my @verdicts = $said =~ /[<>]= [\d.]+ (OK|MISSED)$/mg;
is scalar(@verdicts), 20, 'all aims printed' or diag $said;
unlike $said, qr/ (error|cut) /, 'no world failed' or diag $said;
like $said, qr/^a ticket that waits +\d+ +\d+ +[\d.]+$/m, 'bytes printed';
is scalar(grep { length > 80 } split /\n/, $said), 0, '80 columns'
    or diag $said;

my $quiet = Bench::Cycle->new($stage, $first, kind => 'quiet', batch => 16);
$quiet->measure(0.1);
is_deeply [ $quiet->state ], [ 16, 0 ], 'all acquired permits out';

my $queue = Bench::Cycle->new($stage, $first, kind => 'contended');
for my $cycle (1 .. 3) {
    $queue->measure(0.1);
    is $stage->redis->calls->{publish}, 100, "a message per grant, $cycle";
    is_deeply [ $queue->state ], [ 10, 30 ], "all out, all waiting, $cycle";
}
$stage->end;

done_testing();
