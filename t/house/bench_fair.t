#!/usr/bin/perl

# make bench-fair runs: every case has its figures, the cap is reached and held
# meanwhile, and the simulated session keeps its permits and its queue. What it
# measures is no matter here.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../bench";

use Bench::FairSync;
use Bench::Stage;
use Bench::World;
use Dsem::Bench qw(said);

local $ENV{ROUNDS} = 1;
local $ENV{SECONDS} = 0.3;
# of its 12 permits, 50 ms each; what waits is waited for after each case
local $ENV{CAPACITY} = 240;
local $ENV{QUEUE} = 24;
my $said = said('fair');

# "-": none was served
my $figure = qr/(?:[\d.]+(?: %)?|-)/;
my @figures = $said =~ /^(?:without|fair=(?: per node)?): .*?((?: +$figure)+)$/mg;
is scalar(@figures), 36, 'all cases measured' or diag $said;
my @verdicts = $said =~ /[<>]?= [\d.]+ (?:OK|MISSED)$/mg;
# of the scripts of before only with the history of the repository
my @before = $said =~ /^  before new keys shared turns, us +\d+\.\d$/mg;
is scalar(@verdicts), 11 + @before, 'all aims printed' or diag $said;
my @syncs = $said =~ /^  without fair=, us +\d+\.\d$/mg;
is scalar(@syncs), 2, 'syncs of six sessions and of one measured';
like $said, qr/^peak at the backend, in all runs +12 +.* OK$/m,
    'limit reached and held' or diag $said;
unlike $said, qr/^requests that ended with/m, 'no other status';

my $stage = Bench::Stage->new('bench_fair');
$stage->redis(Bench::World::redis_args());
for my $sessions (6, 1) {
    my $sync = Bench::FairSync->new($stage, 50, $sessions);
    for my $round (1 .. 3) {
        # each key twice
        $sync->round(100);
        my @states = $sync->states;
        is_deeply \@states, [ ([12, 50]) x @states ],
            "all out, all waiting, $sessions, $round";
    }
}
$stage->end;

done_testing();
