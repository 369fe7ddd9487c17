#!/usr/bin/perl

# Every recipe of the README has its test, t/recipes_*.t, and no test speaks
# of a recipe that is not there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/lib";

use Dsem::Recipe;

my @tested;
for my $file (glob "$FindBin::Bin/recipes_*.t") {
    open my $fh, '<', $file or die "$file: $!";
    local $/;
    push @tested, <$fh> =~ /\brecipe\('([^']+)'/g;
}

is_deeply([sort @tested], [sort(recipes())], 'every recipe, and no other');

done_testing();
