#!/usr/bin/perl

# A wall beyond which each takes three times as long falls in the middle of a
# turn: that turn shows a part of the leap of the latency, and the deep step is
# as deep as all of it. That is so at whatever moment it falls.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my @names = map { "api$_" } 0 .. 11;
my $one = $scripts->session('one')->configured('a',
    { map { $_ => '10=1-1000' } @names });

for my $i (0 .. $#names) {
    my $wall = 60;
    my $auto = Dsem::Auto->new($scripts, $names[$i], [ $one ],
        latency => sub { $_[0] > $wall ? 150 : 50 });
    $auto->run(40 + 0.1 * $i);
    cmp_ok $auto->{reply}{kept}, '>=', 50, "moment $i: near the wall";
    $wall = 15;
    ok $auto->until(sub { $_[0]{kept} <= 15 }, 20), 'one that fell is found';
    $auto->run(10);
    cmp_ok $auto->{reply}{kept}, '<=', 15, 'and kept';
}
