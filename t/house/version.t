#!/usr/bin/perl

# The version is defined in one place, and all others agree: the Makefile, the
# Debian package, those of packaging/, the section of CHANGELOG.md, the documents.
# So does the layout of the state in Redis.

use warnings;
use strict;

use Test::More;

use FindBin;

my $root = "$FindBin::Bin/../..";

sub slurp {
    my ($file) = @_;
    open my $fh, '<', "$root/$file" or die "$file: $!";
    local $/;
    return <$fh>;
}

my ($version) = slurp('ngx_module/ngx_http_dsem_module.h')
    =~ /^#define NGX_HTTP_DSEM_VERSION  "(\d+\.\d+\.\d+)"$/m;
ok($version, 'defined');

my @again = split /\n/, qx(grep -rnF '"$version"' $root/ngx_module);
is(scalar @again, 1, 'in one place only') or diag join "\n", @again;

my ($package) = slurp('debian/changelog') =~ /\A\S+ \((.*?)\) /;
is($package, $version, 'debian/changelog');

my ($section) = slurp('CHANGELOG.md') =~ /^(## \d.*?)(?=^## |\z)/ms;
like($section, qr/\A## \Q$version\E\n/, 'CHANGELOG.md');

my ($layout) = slurp('lua/include/shard.lua') =~ /^local LAYOUT = (\d+)$/m;
like($section, qr/\bLayout of the state in Redis: $layout\.$/m,
    'CHANGELOG.md: layout');

my $text = join '', map { slurp($_) } 'README.md',
    map { s{^\Q$root\E/}{}r } glob "$root/docs/*.md";
my @shown = ($text =~ /`dsem: version (\S+)`/g,
    $text =~ /"version":"(.*?)"/g, $text =~ /-mod-http-dsem_(\d[^_]*)_/g);
is_deeply(\@shown, [($version) x 2], 'documents');

my @packed = qx(grep -rhoE '(dsem-|dsem=|dsem_version |Version +: )[0-9]+[.][0-9]+[.][0-9]+' $root/packaging);
is_deeply([grep { !/[ =-]\Q$version\E$/ } @packed], [], 'other packages');

like(scalar qx(make -s -C $root help), qr{build/dsem-\Q$version\E\.tar\.gz},
    'Makefile');

done_testing();
