#!/usr/bin/perl

# make bench-scale runs, and its simulated sessions get what they should: all
# permits of a full semaphore stay out, and its queue keeps its length,
# however often the cycle is repeated. What it measures is no matter here.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../bench";

use Bench::Stage;
use Bench::World;

my $root = "$FindBin::Bin/../..";
local $ENV{ROUNDS} = 1;
local $ENV{SCALE} = 0.01;
my $said = qx($^X -I$root/t/lib $root/t/bench/scale.pl 2>&1);

is $?, 0, 'exit status zero' or diag $said;
my @permits = $said =~
    /^(?:steady|alone|contended|recalled|empty) .* ([\d,]+)$/mg;
is scalar(@permits), 17, 'permits a second printed';
my @ratios = $said =~ /^[a-z ]+ +[\d.]+ +[\d.]+ +([\d.]+)  \w/mg;
is scalar(@ratios), 5, 'conditions printed';
like $said, qr/^a ticket +\d+$/m, 'bytes printed';
is scalar(grep { length > 80 } split /\n/, $said), 0, '80 columns';

my $stage = Bench::Stage->new('bench_scale');
my $steady = Bench::World->new($stage, sessions => 4, semaphores => 1,
    batch => 16);
$steady->measure(50);
is_deeply [ $steady->state ], [ 64, 0 ], 'all asked permits out';
my $queue = Bench::World->new($stage, kind => 'contended', sessions => 4,
    semaphores => 1, batch => 3, waiting => 6);
for my $cycle (1 .. 3) {
    $queue->measure(25);
    is_deeply [ $queue->state ], [ 12, 18 ], "all out, all waiting, $cycle";
}
is $stage->redis->calls->{publish}, 25, 'one message per session';
my $recalled = Bench::World->new($stage, kind => 'recalled', sessions => 4,
    semaphores => 1);
for my $cycle (1 .. 3) {
    $recalled->measure(12);
    is_deeply [ $recalled->state ], [ 1, 0 ], "one out, none waiting, $cycle";
}
is $stage->redis->calls->{publish}, 8, 'four recalls and four grants';
$stage->end;

done_testing();
