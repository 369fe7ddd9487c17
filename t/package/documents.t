#!/usr/bin/perl

# The documents in the Debian package have no dead link: what is installed is
# put together here as debian/ lists it, and its links are made plain as
# debian/rules does it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);

use Dsem::Pages;

my $root = abs_path("$FindBin::Bin/../..");
my $name = 'libnginx-mod-http-dsem';
my $dir = "$root/build/t/package/documents";
my $doc = "usr/share/doc/$name";

chdir $root or die "$root: $!";
remove_tree($dir);

# dh_installdocs, dh_installexamples, dh_install

place($_, $doc) for words("debian/$name.docs"), 'CHANGELOG.md';
place($_, "$doc/examples") for words("debian/$name.examples");
for (split /\n/, slurp("debian/$name.install")) {
    my ($from, $to) = split ' ';
    place($from, $to);
}

my $before = dead();
cmp_ok($before, '>', 0, 'the tree has more than the package');
is(system("$root/debian/links-of-documents", "$dir/$doc"), 0, 'links made plain');
is(dead(), 0, 'no dead link');
my $readme = slurp("$dir/$doc/README.md");
like($readme, qr/\]\(docs\/directives\.md#dsem_redis\)/, 'others are as they were');
like($readme, qr/\]\(examples\/conf\.example\)/, 'and that of the example');
like(slurp('debian/rules'), qr/^\tdebian\/links-of-documents \$\(documents\)$/m,
    'as debian/rules does it');
remove_tree($dir);

done_testing();

sub words { return split ' ', slurp($_[0]) }

sub place {
    my ($from, $to) = @_;
    make_path("$dir/$to");
    for my $file (glob $from) {
        copy($file, "$dir/$to") or die "$file: $!";
    }
}

# Links that lead nowhere; those to parts of a page, too.
sub dead {
    my %text = map { $_ => slurp($_) } split /\n/, qx(find $dir/$doc -name '*.md');
    my @dead = astray(sub {
        my ($target, $anchor) = @_;
        return -e $target && ($anchor eq ''
            || grep { $_ eq $anchor } anchors(slurp($target)));
    }, %text);
    note($_) for @dead;
    return scalar @dead;
}
