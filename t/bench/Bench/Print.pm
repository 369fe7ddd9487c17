package Bench::Print;

# Headings and figures in the format of all benchmarks.
#
# Called by: Bench::Report, Bench::Crowd, Bench::Queue, auto.pl, fair.pl, pool.pl,
# scale.pl.

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

# A line of a table of aims. columns: format of the name, of what was seen (a
# number in its own format) and of the aim; none: it is only shown. Returns
# whether it is reached, if there is one.
sub aim {
    my ($columns, $name, $format, $seen, $aim, $reached) = @_;
    my $text = sprintf $columns, $name, number($format, $seen), $aim // '';
    print $text =~ s/ +$//r, defined $aim ? $reached ? ' OK' : ' MISSED' : '',
        "\n";
    return defined $aim ? $reached : ();
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
