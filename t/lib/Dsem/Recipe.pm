package Dsem::Recipe;

# The recipes of docs/, unchanged or adapted to this machine: only
# addresses and paths are replaced.
#
#   my $recipe = recipe('WebSockets', '/var/log/nginx' => '%%DIR%%');
#   my ($conf, $command) = recipe('A dry run before enforcement');
#
# The result is a part of the test's nginx.conf.
#
# Called by: t/recipes/*.t.

use strict;
use warnings;

use parent 'Exporter';

use Carp qw(croak);

use Dsem::Pages;
use Dsem::Test ();

our @EXPORT = qw(recipe recipes);

# Replaced in every recipe that has it.
my %HERE = ('listen 80;' => 'listen 127.0.0.1:%%PORT%%;');

# Pages on which a section of the third level is a recipe.
sub _section { return join "\n", map { page("docs/$_.md") } qw(recipes redis) }

# The titles of all recipes.
sub recipes { return _section() =~ /^### (.*)/mg }

# The indented blocks of one recipe, with %place replaced; the first block is
# the configuration.
sub recipe {
    my ($title, %place) = @_;
    my ($text) = _section() =~ /^### \Q$title\E\n(.*?)(?=^#+ |\z)/ms
        or croak "docs/ has no recipe \"$title\"";
    my @blocks = map { s/^    //mgr } $text =~ /^((?: {4}.*\n|\n(?= {4}))+)/mg;
    for my $from (sort keys %place) {
        croak "recipe \"$title\" has no \"$from\""
            if !grep { /\Q$from\E/ } @blocks;
    }
    %place = (%HERE, %place);
    for my $block (@blocks) {
        $block =~ s/\Q$_\E/$place{$_}/g for sort keys %place;
    }
    return wantarray ? @blocks : $blocks[0];
}

1;
