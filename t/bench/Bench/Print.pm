package Bench::Print;

# Headings and figures in the format of all benchmarks.
#
# Called by: Bench::Report, Bench::Crowd, Bench::Queue, fair.pl, scale.pl.

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(title number grouped);

sub title {
    my ($text) = @_;
    print "\n$text\n", '-' x 80, "\n";
}

sub number {
    my ($format, $value) = @_;
    return defined $value ? sprintf $format, $value : '-';
}

# 1234567 as 1,234,567
sub grouped {
    my ($n) = @_;
    return '-' unless defined $n;
    my $text = sprintf '%.0f', $n;
    1 while $text =~ s/^(\d+)(\d{3})/$1,$2/;
    return $text;
}

1;
