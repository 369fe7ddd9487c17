#!/usr/bin/perl

# The list of mutants fits the sources: each change is found once, and its
# tests are there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib $FindBin::Bin;

use Mutants::List;

my $root = "$FindBin::Bin/../..";

sub none {
    my ($name, @wrong) = @_;
    is scalar(@wrong), 0, $name or diag join "\n", @wrong;
}

my @mutants = Mutants::List::read($FindBin::Bin);
my %sources = Mutants::List::sources($root);
my %seen;

cmp_ok scalar(@mutants), '>=', 80, 'mutants listed';
none('names different', grep { $seen{$_}++ } map { $_->{name} } @mutants);

my @misplaced;
for my $mutant (@mutants) {
    my @found = Mutants::List::find($mutant, \%sources);
    push @misplaced, "$mutant->{list}: $mutant->{name} is found "
        . @found . ' times' . join '', map { "\n    $_->[0]" } @found
        if @found != 1;
}
none('each change found once', @misplaced);

none('tests there', map {
    my $mutant = $_;
    map { "$mutant->{name}: no $_" } grep { !-f "$root/$_" }
        @{ $mutant->{tests} };
} @mutants);

done_testing();
