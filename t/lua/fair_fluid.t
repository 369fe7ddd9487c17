#!/usr/bin/perl

# The scripts beside an ideal of "fair=": permits that can be divided, and taken
# back at any moment. In any 10 s each key has its share of that, within 2.5
# times the longest request of the walk. A walk is the random traffic of some
# keys in simulated time: it is the same on every machine.

use FindBin;
use List::Util qw(max);
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";
use Dsem::Scripts;
use Model::FairFluid;
use Model::FairWalk;

# ms; longest requests, see docs/fair.md
use constant { WINDOW => 10_000, BOUND => 2.5 };

my $scripts = Dsem::Scripts->new;

# In longest requests.
sub error {
    my ($seed, %arg) = @_;
    my $walk = Model::FairWalk->new($scripts, seed => $seed, %arg)->run;
    my ($less, $more) = $walk->error(WINDOW);
    my $error = max($less, $more) * WINDOW / $walk->longest;
    note sprintf 'walk %d: %.4f less, %.4f more, %.2f longest requests: %s',
        $seed, $less, $more, $error, $walk->text;
    return $error;
}

# The ideal by itself: one permit of 100 ms, and requests of two keys.
sub ideal {
    my ($share, @requests) = @_;
    my $fluid = Model::FairFluid->new(limit => 2, queue => 3, slot => 100,
        share => $share)->run([ map { [ 0, @$_ ] } @requests ], 100);
    return join ' ', map { sprintf '%.0f', $fluid->{use}{$_}[0] // 0 } 'a', 'b';
}

is ideal({}, ([ a => 90 ], [ b => 90 ]) x 2), '100 100', 'equal shares';
is ideal({ b => 3 }, ([ a => 200 ], [ b => 200 ]) x 2), '50 150', 'shares 1:3';
is ideal({}, [ a => 30 ], ([ b => 90 ]) x 3), '30 170', 'the rest to others';
is ideal({}, [ a => 90 ]), '90 0', 'a request has one permit at most';
is ideal({}, [ a => 10 ], ([ b => 10 ]) x 5), '10 40',
    'the longest backlog loses one';

cmp_ok error($_), '<=', BOUND, "walk $_: near the ideal"
    for $ENV{DSEM_LONG} ? 1 .. 120 : (1, 7, 20, 24, 53, 63, 77);
cmp_ok error(63, fair => 0), '>', BOUND, 'without "fair": seen';
