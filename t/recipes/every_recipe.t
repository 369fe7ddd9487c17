#!/usr/bin/perl

# Every recipe of docs/ has its test, in this folder, and no test speaks
# of a recipe that is not there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Recipe;

my %tested;
for my $file (glob "$FindBin::Bin/*.t") {
    open my $fh, '<', $file or die "$file: $!";
    local $/;
    $tested{$_} = 1 for <$fh> =~ /\brecipe\('([^']+)'/g;
}

is_deeply([sort keys %tested], [sort(recipes())], 'every recipe tested');

done_testing();
