#!/usr/bin/perl

# A backend that becomes quicker while limits are compared: the comparison ends,
# as times of before and after say nothing about limits, and the limit goes up at
# once. That is so in whatever part of a comparison it happens.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my @names = map { "api$_" } 0 .. 11;
my $one = $scripts->session('one')->configured('a',
    { map { $_ => '10=1-1000' } @names });

my ($mean, @took) = 0;
for my $i (0 .. $#names) {
    my ($knee, $ms) = (20, 50);
    srand 7 + $i;
    my $auto = Dsem::Auto->new($scripts, $names[$i], [ $one ], latency => sub {
        my $time = $ms * ($_[0] > $knee ? $_[0] / $knee : 1);
        return $time * (0.9 + rand 0.2);
    });
    $auto->run(30 + 0.3 * $i);
    my $from = $auto->{time};
    ($knee, $ms) = (60, 16);
    $auto->until(sub { $_[0]{kept} >= 45 }, 20);
    push @took, ($auto->{time} - $from) / 1000;
    $mean += $took[-1] / @names;
}
cmp_ok $mean, '<=', 2, 'followed in two seconds' or diag "@took";
