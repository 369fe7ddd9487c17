#!/usr/bin/perl

# A wall: beyond 20 requests each takes four times as long. A turn beyond it ends
# as soon as its first requests show that. The backend has to be tried again and
# again: the wall may have moved.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a', { api => '10=1-1000' });
my $wall = 20;
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ],
    latency => sub { $_[0] > $wall ? 200 : 50 });

cmp_ok $auto->run(30)->{kept}, '<=', 20, 'below the wall';
my $from = () = $auto->trace;
$auto->run(100);
my ($beyond, $turns, $before) = (0, 0, 0);
for my $limit (($auto->trace)[$from .. $from + 999]) {
    $beyond++ if $limit > 20;
    $turns++ if $limit > 20 && $before <= 20;
    $before = $limit;
}
cmp_ok $turns, '>=', 3, 'tried beyond the wall';
cmp_ok $beyond, '<=', 4 * $turns, 'for two samples, not eleven';

$wall = 40;
ok $auto->until(sub { $_[0]{kept} >= 30 }, 60), 'a wall that moves is followed';
