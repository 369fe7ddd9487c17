#!/usr/bin/perl

# Checks the logs of a soak, and nothing else: it can be run again on logs that
# were kept, also by another version of itself.
#
#   check.pl directory...         one for each phase
#
# Exit status: 0 no violation, 1 violations, 2 the logs cannot be read.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Soak::Check;
use Soak::Logs;

# violations shown of each check
use constant SHOWN => 10;

exit main(@ARGV);

sub main {
    my (@dirs) = @_;
    my (%columns, %n, @violated);
    for my $dir (@dirs) {
        my $phase = $dir =~ s{.*/}{}r;
        my $logs = eval { Soak::Logs->new($dir) }
            or do { print STDERR "check.pl: $@"; return 2 };
        my $check = Soak::Check->new($logs);
        my $found = $check->run;
        $columns{$phase} = $check->{figures};
        for (@Soak::Check::CHECKS) {
            my ($name, $sentence) = @$_;
            my @found = @{ $found->{$name} };
            $n{$name} += @found;
            next unless @found;
            push @violated, "VIOLATED in $phase: $sentence (" . @found . ")\n",
                map { "    $_\n" } splice @found, 0, SHOWN;
        }
    }
    table(\%columns, map { s{.*/}{}r } @dirs);
    printf "%-45s %d\n", $_->[1], $n{ $_->[0] } // 0 for @Soak::Check::CHECKS;
    my $sum = 0;
    $sum += $_ for values %n;
    # last, as a log may show its end only
    print "$sum violations\n", @violated;
    return $sum ? 1 : 0;
}

# One row for each figure, one column for each phase, and the sum.
sub table {
    my ($of, @phases) = @_;
    for my $group (qw(requests kinds verdicts faults peak overage)) {
        my %row = map { $_ => 1 } map { keys %{ $of->{$_}{$group} // {} } }
            @phases;
        next unless %row;
        my $add = $group !~ /peak|overage/;
        printf "\n%-24s%s\n", $group, join '', map { sprintf '%10s', $_ }
            @phases, $add ? 'all' : ();
        for my $row (sort keys %row) {
            row($row, $add, map { $of->{$_}{$group}{$row} // 0 } @phases);
        }
        row('', 1, map { my $sum = 0; $sum += $_
            for values %{ $of->{$_}{$group} // {} }; $sum } @phases) if $add;
    }
    print "\n";
    for my $phase (@phases) {
        my $figures = $of->{$phase};
        print "$phase: ", join('; ', map { "$_: $figures->{$_}" }
            grep { !ref $figures->{$_} } sort keys %$figures), "\n";
    }
    print "\n";
}

sub row {
    my ($name, $add, @values) = @_;
    my $sum = 0;
    $sum += $_ for @values;
    printf "  %-22s%s\n", $name, join '', map { sprintf '%10d', $_ }
        @values, $add ? $sum : ();
}
