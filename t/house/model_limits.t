#!/usr/bin/perl

# The rule of limit=auto in its simulation: it finds the knee, and finds it
# again where the backend halves, in whatever part of a probe's period that
# happens. All moments and scenarios are those of the long profile.

use warnings;
use strict;

use Test::More;

use FindBin;

my $limits = "$FindBin::Bin/../model/limits";

my $long = $ENV{DSEM_LONG};
my %moments = said('moments', $long ? 1 : 2) =~ /^(\d+ workers, \w+):(.*)$/mg;
is_deeply [sort keys %moments],
    ['1 workers, back', '1 workers, half', '6 workers, back',
    '6 workers, half'], 'all fleets';
for my $name (sort keys %moments) {
    my ($median, $most, $longest) = split ' ', $moments{$name};
    cmp_ok $longest, '<=', $name =~ /half/ ? 10 : 20, "$name: longest, s";
    cmp_ok $median, '<=', $name =~ /half/ ? 2 : 6, "$name: median, s";
}

my @names = ('knee', 'exponential', 'mixed', 'six workers', 'sixty workers',
    'slower', 'leak', 'cliff');
my %own = said($long ? 'own' : ('one', @names)) =~ /^(\S.*?) +dsem +(.*)$/mg;
for my $name (@names) {
    my ($one, $five, $many, $rate, $p99) = split ' ', $own{$name} // '';
    is scalar(grep { $_ && abs($_ - 20) <= 4 } $one, $five, $many), 3,
        "$name: the knee from 1, 5 and 200" or diag $own{$name};
    cmp_ok $rate, '>=', 0.94, "$name: throughput";
    cmp_ok $p99, '<=', 1.3, "$name: p99";
}

done_testing;


sub said {
    my $args = join ' ', map { "'$_'" } @_;
    my $out = qx($limits $args 2>&1);
    is $?, 0, "$_[0]: run" or diag $out;
    return $out;
}
