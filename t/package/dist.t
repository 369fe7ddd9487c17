#!/usr/bin/perl

# make dist: the same tree gives the same bytes. With LONG=1, what is unpacked
# needs no git: it builds the module, tests it, and packs itself to the same
# bytes again.

use warnings;
use strict;

use Test::More;

use FindBin;

use Cwd qw(abs_path);
use File::Path qw(make_path remove_tree);

plan skip_all => 'LONG=1 builds and tests the sources of a release'
    unless $ENV{DSEM_LONG};

my $root = abs_path("$FindBin::Bin/../..");
my $dir = "$root/build/t/package/dist";
my ($file) = qx(make -s -C $root help) =~ m{build/(dsem-\S+\.tar\.gz)};
my ($name) = $file =~ /^(.*)\.tar\.gz$/;
my $tree = "$dir/$name";

remove_tree($dir);
make_path($dir);

done_by($root, 'dist');
is(system('cp', "$root/build/$file", $dir), 0, 'copied');
done_by($root, 'dist');
is(sum("$root/build/$file"), sum("$dir/$file"), 'the same bytes');

is(system('tar', '-xzf', "$dir/$file", '-C', $dir), 0, 'unpacked');
ok(!-e "$tree/.git" && !-e "$tree/build", 'sources only');
is(slurp("$tree/config"), slurp("$root/config"), 'those of the tree');
done_by($tree, 'dist');
is(sum("$tree/build/$file"), sum("$dir/$file"), 'packed again');

done_by($tree, 'module');
ok(-s "$tree/build/ngx_http_dsem_module.so", 'module built');
like(done_by($tree, 'test', 'T=t/http/variables.t', 'LONG='),
    qr/^Result: PASS$/m, 'a test passes');

remove_tree($dir) if Test::More->builder->is_passing;

done_testing();

###############################################################################

sub slurp {
    my ($path) = @_;
    open my $fh, '<', $path or die "$path: $!";
    local $/;
    return <$fh>;
}

sub sum {
    my ($path) = @_;
    return (split ' ', qx(sha256sum $path))[0];
}

sub done_by {
    my ($where, @what) = @_;
    # nothing of the make that runs this test
    delete local @ENV{qw(MAKEFLAGS MAKELEVEL T LONG)};
    my $said = qx(make -C $where @what 2>&1);
    is($?, 0, "make @what") or diag $said;
    return $said;
}
