#!/usr/bin/perl

# The clock has not moved while sessions had no answer: the machine of Redis stood
# still together with its clock, or its clock was set back. Then their workers may
# have admitted requests by their shares: nothing is granted for a quarter of a
# lease.

use lib 't/lib';
use Dsem::Scripts;

my $LEASE = 60_000;
my $scripts = Dsem::Scripts->new(undef, lease => $LEASE);
my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;

# ms without an answer, and by how much the clock has moved meanwhile; what a
# session then hears of a recovery
sub back {
    my ($session, $age, $moved, %arg) = @_;
    my $clock = $arg{clock} // $scripts->meta('clock') - $moved;
    return $session->hello(age => $age, clock => $clock, %arg)->{recovery};
}

is back($one, 59_000, 0, clock => 0), 0, 'no answer so far: no pause';
$scripts->pass($LEASE, $one, $two);

is $one->beat->{clock}, $scripts->meta('clock'), 'a beat replies the clock';
is $one->hello->{clock}, $scripts->meta('clock'), 'a hello, too';

is back($one, 44_000, 0), 0, 'before the fence: no pause';
is back($one, 59_000, 59_000), 0, 'the clock has moved: no pause';
is back($one, 59_000, 29_001), 0, 'so far that others moved it: no pause';
is back($one, 59_000, 0, gen => 0), 0, 'none of this state: no pause';

# the first command moves the clock by a quarter of the lease at most
my $answered = $scripts->meta('clock');
$scripts->advance(15_000);
is back($one, 45_000, 15_000), 15_000, 'a quarter of the lease';
$one->declared;
is $one->ask('api', 1), 'recovering', 'nothing is granted';
$scripts->pass(5_000, $one);
is back($two, 51_000, 0, clock => $answered), 10_000,
    'one pause, also for a session that comes later';
$two->declared;
$scripts->pass(10_000, $one, $two);
is $one->beat->{recovery}, 0, 'it ends';
is $one->ask('api', 2), 'granted', 'granted again';

# an answer after the pause has begun
is back($two, 60_000, 0), 15_000, 'the next one: a pause again';
$two->declared;

# one that has had no answer says what its node had
$scripts->pass(15_000, $one, $two);
my @of = (gen => $one->gen, term => $one->{term}, told => 0);
my ($new, $raised) = map { $scripts->session($_) } qw/new raised/;
is back($new, 60_000, 0, @of), 15_000, 'a new session: a pause, too';
$new->declared;
is $new->ask('api', 3), 'recovering', 'nothing is granted';
$scripts->pass(15_000, $one, $two, $new);
is $one->beat->{live}, 3, 'it is one more';
$raised->{lease} = 2 * $LEASE;
is back($raised, 50_000, 0, @of), 15_000,
    'a longer lease than all: the longest that is over';
$raised->bye;
$scripts->pass(15_000, $one, $two, $new);

# the longest lease that is over by then
my $long = $scripts->session('long');
$long->{lease} = 2 * $LEASE;
$long->enter;
$scripts->pass(1000, $one, $two, $long);
is back($one, 89_000, 0), 15_000, 'not that of a longer lease';
$one->declared;
$scripts->pass(16_000, $one, $two, $long);
is back($one, 90_000, 0), 30_000, 'that of a longer lease';
