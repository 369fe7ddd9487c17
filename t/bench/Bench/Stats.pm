package Bench::Stats;

# Statistics over the rounds.
#
# Called by: Bench::Contended, Bench::Fair, Bench::FairSync, Bench::Quiet,
# Bench::Report, scale.pl.

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(sum0);

our @EXPORT_OK = qw(median spread jain ratios);

sub median {
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    return unless @sorted;
    return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

# (smallest, largest)
sub spread {
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    return @sorted[ 0, -1 ];
}

# Jain's fairness index. 1: all have the same, 1/n: one has everything.
sub jain {
    my $squares = sum0(map { $_ ** 2 } @_) or return;
    return sum0(@_) ** 2 / (@_ * $squares);
}

# Round by round, so that a disturbance of a whole round affects no ratio.
sub ratios {
    my ($over, $under) = @_;
    return map {
        $under->[$_] ? ($over->[$_] // 0) / $under->[$_] : undef
    } 0 .. $#$under;
}

1;
