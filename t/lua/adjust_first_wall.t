#!/usr/bin/perl

# A wall below the first limit: beyond it each request takes as long with any
# limit, so higher ones never show it. A third of the limit does, or half. One
# pair of turns in which the lower limit is quicker does not suffice: clients
# can make requests slow for a moment. Nor do requests that fail there.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

for ([ 7, 6 ], [ 4, 6 ], [ 9, 3 ], [ 3, 4 ], [ 8, 2 ]) {
    my ($wall, $times) = @$_;
    my $name = "wall$wall";
    my $auto = Dsem::Auto->new($scripts, $name, [ $scripts->session($name)
        ->configured("c$wall", { $name => '10=1-1000' }) ],
        latency => sub { $_[0] > $wall ? 50 * $times : 50 });
    $auto->run(30);
    cmp_ok $auto->{reply}{kept}, '<=', $wall, "a wall at $wall is found";
    cmp_ok $auto->{reply}{kept}, '>=', 0.75 * $wall, 'not far below';
}

# how many sessions there are is not known in the first second
my $many = Dsem::Auto->new($scripts, 'many', [ map {
    $scripts->session("many$_")->configured('d', { many => '10=1-1000' })
} 1 .. 6 ], latency => sub { $_[0] > 6 ? 40 : 8 },
    peak => sub { $_[0] });
$many->run(30);
cmp_ok $many->{reply}{kept}, '<=', 6, 'a wall at 6 is found by six workers';

# all that is above the lower limit is slow for a moment
my ($turns, $before) = (0, 10);
my $auto = Dsem::Auto->new($scripts, 'slow', [ $scripts->session('slow')
    ->configured('b1', { slow => '10=1-1000' }) ], latency => sub {
    my ($limit) = @_;
    $turns++ if $limit < 10 && $before >= 10;
    $before = $limit;
    return $limit >= 10 && $turns < 1 ? 300 : 50;
});
my $kept = 10;
ok $auto->until(sub {
    $kept = $_[0]{kept} if $_[0]{kept} < $kept;
    return $_[0]{kept} >= 40;
}, 60), 'a higher limit is found';
is $kept, 10, 'none that is lower before';

# requests fail at the lower limit: that is judged at the first one
my $fails = Dsem::Auto->new($scripts, 'fails', [ $scripts->session('fails')
    ->configured('b2', { fails => '10=1-1000' }) ],
    errors => sub { $_[0] < 10 ? 0.3 : 0 });
$kept = 10;
ok $fails->until(sub {
    $kept = $_[0]{kept} if $_[0]{kept} < $kept;
    return $_[0]{kept} >= 40;
}, 60), 'errors at the lower limit: a higher one is found';
is $kept, 10, 'none that is lower before';
