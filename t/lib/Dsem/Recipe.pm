package Dsem::Recipe;

# The recipes of the README, as they stand there and as they can run on this
# machine: addresses and paths are replaced, nothing else.
#
#   my $recipe = recipe('WebSockets', '/var/log/nginx' => '%%DIR%%');
#   my ($conf, $command) = recipe('A dry run before enforcement');
#
# What comes back goes into the nginx.conf of the test.
#
# Called by: t/recipes*.t.

use strict;
use warnings;

use parent 'Exporter';

use Carp qw(croak);

use Dsem::Test ();

our @EXPORT = qw(recipe recipes);

# What the harness has places for of its own; it may be there or not.
my %HERE = ('listen 80;' => 'listen 127.0.0.1:%%PORT%%;');

sub _section {
    my $path = "$Dsem::Test::ROOT/t/recipes/README.md";
    open my $fh, '<', $path or croak "$path: $!";
    local $/;
    return <$fh>;
}

# Their titles.
sub recipes { return _section() =~ /^### (.*)/mg }

# The indented blocks of one, what is found in them replaced: the first is
# the configuration.
sub recipe {
    my ($title, %place) = @_;
    my ($text) = _section() =~ /^### \Q$title\E\n(.*?)(?=^### |\z)/ms
        or croak "README.md has no recipe \"$title\"";
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
