#!/usr/bin/perl

# Traffic that changes as often as the turns of a comparison, slow and quick in
# every other second: it is not always the same limit that meets the slow one.
# One beginning or another is far off by chance, so the mean of eight counts.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my @names = map { "api$_" } 1 .. 8;
my $one = $scripts->session('one')->configured('a',
    { map { $_ => '10=1-1000' } @names });

my @found;
for my $i (0 .. $#names) {
    my $auto;
    $auto = Dsem::Auto->new($scripts, $names[$i], [ $one ], latency => sub {
        my $slow = ($auto->{time} + 250 * $i) % 2000 < 1000;
        return ($slow ? 90 : 50) * ($_[0] > 40 ? $_[0] / 40 : 1);
    });
    $auto->run(60);
    my ($mean, $last) = (0, 200);
    $mean += $_ / $last for ($auto->trace)[-$last .. -1];
    push @found, $mean;
}
my $off = 0;
$off += abs($_ - 40) / @found for @found;
cmp_ok $off, '<=', 15, 'found in spite of it' or diag "@found";
