#!/usr/bin/perl

# Of a new name the double is tried, and, where the latency does not rise with
# it, a third of the first limit: a wall below that does not show in higher
# ones. A limit that is not 10, or the nearest bound, was found before, and may
# be too high now: a third of it is tried first, and then the double.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my ($scripts, $number) = (Dsem::Scripts->new, 0);

for ([ 10, '10 20 3 20 40' ], [ 8, '8 3 8 16' ], [ 80, '80 25 80 160' ],
    [ 10, '10 20 5 20 40', min => 5 ], [ 10, '10 20 40', min => 10 ],
    [ 8, '8 3 8', max => 8 ],
    # after a third half of it: that was not found before
    [ 8, '8 3 4 8', max => 8, latency => sub { 50 * $_[0] ** 0.3 } ], [ 10, '10 15 3 15', max => 15 ],
    [ 10, '10 20 40', latency => sub { $_[0] > 10 ? 70 : 50 } ],
    # a third is worse by little: it is given up after one turn
    [ 10, '10 20 3 5 20 40', latency => sub { $_[0] > 3 ? 102 : 50 } ])
{
    my ($start, $expected, %arg) = @$_;
    my ($min, $max) = ($arg{min} // 1, $arg{max} // 1000);
    my $auto = auto($start, %arg);
    my ($last, $count) = ($expected =~ /(\d+)$/, scalar split ' ', $expected);
    my @seen;
    $auto->until(sub {
        my $limit = $_[0]{found};
        push @seen, $limit if !@seen || $limit != $seen[-1];
        return @seen == $count;
    }, 30);
    is "@seen", $expected, "from $start, at least $min, at most $max";
}

# bursts with pauses: each turn takes some of them, so there are higher limits
# only, or half of it
my %bursts = (used => 0.2, peak => sub { $_[0] });
my $bursts = auto(10, %bursts);
$bursts->until(sub { $_[0]{found} > 20 }, 30);
is +(sort { $a <=> $b } $bursts->trace)[0], 10, 'bursts with pauses';
$bursts = auto(10, max => 10, %bursts);
$bursts->until(sub { $_[0]{found} != 10 }, 30);
is $bursts->found, 5, 'from the maximum';

# the first limit is the maximum: a third has to be better than that, too
my $most = auto(8, max => 8, latency => sub { 50 * $_[0] ** 0.3 });
$most->run(30);
is $most->{reply}{kept}, 8, 'from the maximum, none that is not better';

# half of it is the minimum: that is tried once, though latencies fall there
my $half = auto(10, min => 5, latency => sub { $_[0] < 10 ? 50 : 70 });
$half->until(sub { $_[0]{found} > 20 }, 30);
my $at = grep { $_ == 5 } $half->trace;
cmp_ok $at, '>=', 1, 'half is the minimum: it is tried';
cmp_ok $at, '<=', 5, 'one turn';

# the lowest one: only higher ones are left
my $auto = auto(80, min => 80);
$auto->until(sub { $_[0]{found} != 80 }, 30);
is $auto->found, 160, 'from the minimum';

# far too high, and each lower one shows it
my $knee = auto(300, latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
$knee->run(120);
cmp_ok abs($knee->found - 20), '<=', 4, 'down to the knee';
is +(sort { $b <=> $a } $knee->trace)[0], 300, 'without a higher one before';

# A new name that begins with a limit.
sub auto {
    my ($start, %arg) = @_;
    my $name = 'n' . ++$number;
    my ($min, $max) = ($arg{min} // 1, $arg{max} // 1000);
    return Dsem::Auto->new($scripts, $name, [ $scripts->session($name)
        ->configured("c$number", { $name => "$start=$min-$max" }) ], %arg);
}
