#!/usr/bin/perl

# A wall that has fallen to less than half of the limit, while all requests take
# half as long again: the deep step is far below the wall, and shows the rest of
# the leap only. It is better all the same.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($wall, $usual) = (48, 50);
my $auto = Dsem::Auto->new($scripts, 'api', [ $scripts->session('one')
    ->configured('a', { api => '10=1-1000' }) ],
    latency => sub { $_[0] > $wall ? 200 : $usual });

cmp_ok $auto->run(60)->{kept}, '>=', 40, 'near the wall';
($wall, $usual) = (10, 75);
ok $auto->until(sub { $_[0]{kept} <= 10 }, 20), 'a wall that fell is found';
$auto->run(30);
cmp_ok $auto->{reply}{kept}, '<=', 10, 'and kept';
cmp_ok $auto->{reply}{kept}, '>=', 7, 'not far below';
