#!/usr/bin/perl

# A latency that leaps: a wall beyond which each takes four times as long has
# fallen to less than half of the limit, where no step shows it. A deep step
# does. Where requests take longer at any limit, there is one for the first leap
# in a minute, and the limit stays.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($wall, $slow) = (48, 1);
my $auto = Dsem::Auto->new($scripts, 'api', [ $scripts->session('one')
    ->configured('a', { api => '10=1-1000' }) ],
    latency => sub { $slow * ($_[0] > $wall ? 200 : 50) });

cmp_ok $auto->run(60)->{kept}, '>=', 40, 'near the wall';
$wall = 10;
ok $auto->until(sub { $_[0]{kept} <= 10 }, 20), 'a wall that fell is found';
$auto->run(30);
cmp_ok $auto->{reply}{kept}, '<=', 10, 'and kept';
cmp_ok $auto->{reply}{kept}, '>=', 7, 'not far below';

$wall = 48;
ok $auto->until(sub { $_[0]{kept} >= 40 }, 60), 'it rises again';
$auto->run(30);
for ([ 4, 1 ], [ 1, 0 ], [ 4, 0 ], [ 1, 0 ], [ 2, 0 ], [ 1, 0 ], [ 4, 1 ]) {
    my $expected;
    ($slow, $expected) = @$_;
    my $kept = $auto->{reply}{kept};
    my $from = () = $auto->trace;
    $auto->run(20);
    my ($deep, $before) = (0, $kept);
    for my $limit (($auto->trace)[$from .. $auto->trace - 1]) {
        $deep++ if $limit < $kept / 2.1 && $before >= $kept / 2.1;
        $before = $limit;
    }
    is $deep, $expected, "$slow times as long: deep steps";
    cmp_ok $auto->{reply}{kept}, '>=', 0.8 * $kept, 'the limit stays';
}
