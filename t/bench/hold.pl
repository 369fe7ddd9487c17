#!/usr/bin/perl

# make bench-hold: what programs that hold permits cost a worker, and how soon
# the next one has the permit of one that was killed.
#
# Environment: HOLDERS (10000), SECONDS of the CPU time (30), ROUNDS of killed
# holders (200). A run takes two minutes. It uses the distribution's nginx and
# ignores DSEM_NGINX.
#
# Exit status: 0 when everything was measured, whatever the results.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Bench::Hold;
use Bench::Machine;
use Bench::Print qw(title grouped);
use Bench::Stage;
use Bench::Stats qw(median);

my $stage = Bench::Stage->program('hold');

my ($holders, $seconds, $rounds) = map { $ENV{$_->[0]} || $_->[1] }
    [ HOLDERS => 10_000 ], [ SECONDS => 30 ], [ ROUNDS => 200 ];
/^\d*\.?\d+$/ && $_ > 0 or die "$_ is not a number\n"
    for $holders, $seconds, $rounds;

print "$_\n" for Bench::Machine::lines(qw(nginx Redis));
$stage->redis;
my $hold = Bench::Hold->new($stage, $holders);

# first, while this process is small: the end of a large one takes its time
title("A holder is killed, ms until the next one has the permit");
my @ms = sort { $a <=> $b } $hold->handed_on($rounds);
my $median = median(@ms);
line("median of $rounds", '%.1f', $median, '<= 20', $median <= 20);
line('99th percentile', '%.1f', $ms[ int 0.99 * $#ms ]);

title(grouped($holders) . ' holders of one worker, "interval" of 15 s');
my ($idle) = $hold->cost('idle', '/idle', qr/\r\n\r\n/);
my ($delayed) = $hold->cost('delayed', '/delayed');
my ($held, $part) = $hold->cost('held', '/jobs', qr/granted/,
    seconds => $seconds);
my ($small) = $hold->cost('small', '/jobs', qr/granted/, pool => '2k');
line('CPU of the worker, % of a core', '%.2f', 100 * $part, '< 1',
    $part < 0.01);
line('memory: an idle connection, bytes', '%d', $idle);
line('  a request that nginx itself delays (limit_req)', '%d', $delayed);
line('  a holder', '%d', $held);
line('  beyond the idle connection', '%d', $held - $idle);
line('  beyond the request that nginx delays', '%d', $held - $delayed,
    '<= 2048', $held - $delayed <= 2048);
line('  a holder with "request_pool_size 2k"', '%d', $small);

# Without an aim the figure is for comparison.
sub line {
    my ($name, $format, $seen, $aim, $reached) = @_;
    my $text = sprintf "%-52s%10s%10s", $name, sprintf($format, $seen),
        $aim // '';
    print $text =~ s/ +$//r, defined $aim ? $reached ? ' OK' : ' MISSED' : '',
        "\n";
}
