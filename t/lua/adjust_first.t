#!/usr/bin/perl

# Of a name of which nothing is known a higher limit is tried first. One above
# 10 was found before, and may be too high now: a lower one is tried first, and
# then a higher one, as far away.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

for ([ 10, '10 20' ], [ 5, '5 10' ], [ 80, '80 40 80 160' ]) {
    my ($start, $expected) = @$_;
    my $name = "from$start";
    my $auto = Dsem::Auto->new($scripts, $name, [ $scripts->session($name)
        ->configured("c$start", { $name => "$start=1-1000" }) ]);
    my $higher = $auto->until(sub { $_[0]{found} > $start }, 30);
    my @seen;
    for my $limit ($auto->trace) {
        push @seen, $limit if !@seen || $limit != $seen[-1];
    }
    is "@seen", $expected, "from $start";
}

# the lowest one: only higher ones are left
my $auto = Dsem::Auto->new($scripts, 'least', [ $scripts->session('least')
    ->configured('a1', { least => '80=80-1000' }) ], min => 80);
$auto->until(sub { $_[0]{found} != 80 }, 30);
is $auto->found, 160, 'from the minimum';

# far too high, and each lower one shows it
my $knee = Dsem::Auto->new($scripts, 'knee', [ $scripts->session('knee')
    ->configured('a2', { knee => '300=1-1000' }) ],
    latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
$knee->run(120);
cmp_ok abs($knee->found - 20), '<=', 4, 'down to the knee';
is +(sort { $b <=> $a } $knee->trace)[0], 300, 'without a higher one before';
