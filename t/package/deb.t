#!/usr/bin/perl

# The Debian package. Its files fit one another and the rest of the tree. With
# LONG=1, in new roots of Debian 12 and 13: make deb builds it there, lintian
# has nothing to say, it is installed, works as it is, is upgraded under load
# without a failed request, and leaves nothing behind.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cwd qw(abs_path);
use File::Path qw(make_path remove_tree);

use Dsem::Pages;
use Dsem::Roots;

my $root = abs_path("$FindBin::Bin/../..");
my $name = 'libnginx-mod-http-dsem';

chdir $root or die "$root: $!";

my $control = page('debian/control');
my $makefile = page('Makefile');

# what is listed is there

for my $list (qw(install docs examples manpages)) {
    for my $line (split /\n/, page("debian/$name.$list")) {
        my ($file) = split ' ', $line;
        my @there = glob $file;
        ok(@there && -f $there[0], "$list: $file is there");
    }
}
for my $test (map { split ' ' } page('debian/tests/control')
    =~ /^Tests: (.*)/mg)
{
    ok(-x "debian/tests/$test", "test $test can be run");
}
ok(-x 'debian/rules', 'rules can be run');
is(page('debian/source/format'), "3.0 (native)\n", 'native');

my @options = page('bin/dsem-run') =~ /^ +(?:-\w, +)?(--[\w-]+)(?: [A-Z]+)?(?: |$)/mg;
my $manual = page('debian/dsem-run.1') =~ s/\\-/-/gr;
cmp_ok(scalar @options, '>=', 5, 'options of dsem-run');
like($manual, qr/(?<![\w-])\Q$_\E\b/, "manual page: $_") for @options;

# needs: those of the Makefile, with what dpkg takes for granted

my ($needs) = $makefile =~ /^DEB_NEEDS = (.*?[^\\])$/ms;
my ($depends) = $control =~ /^Build-Depends:\n(.*?)^\S/ms;
my %need = map { $_ => 1 } grep { /^\w/ } split ' ', $needs;
my %given = ('debhelper-compat' => 'debhelper', 'dh-sequence-nginx' =>
    'nginx-dev');
is_deeply([sort map { $given{$_} // $_ }
        map { /^ ([\w-]+)/ ? $1 : () } split /\n/, $depends],
    [sort grep { !/^(?:build-essential|dpkg-dev)$/ } keys %need],
    'build dependencies are those of make deb');

# the module that is loaded is the one that is built

my ($module) = page('config') =~ /^ngx_addon_name=(\w+)/m;
is(page('debian/mod-http-dsem.conf'), "load_module modules/$module.so;\n",
    'the module is loaded');
like(page("debian/$name.nginx"), qr{^mod debian/mod-http-dsem\.conf \d\d$}m,
    'and enabled');

my ($licence) = page('LICENSE') =~ /^(Redistribution.*)/ms;
like(page('debian/copyright') =~ s/^ \.?//gmr, qr/\Q$licence\E/,
    'licence is ours');

SKIP: {
    my $reason = unfit('installs the package');
    skip $reason, 1 if $reason;
    installs($_) for qw(bookworm trixie);
}

done_testing();

###############################################################################

sub installs {
    my ($suite) = @_;
    my $dir = "$root/build/t/package/$suite";
    remove_tree($dir);
    make_path($dir);
    said("$root/t/package/roots", $suite, roots());

    my ($version, $newer, @package) = packages($suite, $dir);
    my $clean = fresh($suite, "$suite-clean");
    my $said = inside("$suite-clean", 't/package/install', @package);
    my %got = $said =~ /^([^:\n]+): ?(.*)$/mg;
    diag($said) unless works($suite, $version, $newer, %got);
    said('rm', '-rf', $clean);
}

# Builds the package from the sources that make dist has put together, and the
# next version from a copy.
sub packages {
    my ($suite, $dir) = @_;
    said('make', '-s', 'dist');
    my ($tarball) = map { /build\/dsem-(.*)\.tar\.gz/ } said(qw(make help));
    my ($version, $newer) = ($tarball, "$tarball.1");
    my @package;
    for my $this ($version, $newer) {
        my $tree = "$dir/$this";
        make_path($tree);
        said('tar', '-xzf', "$root/build/dsem-$version.tar.gz", '-C', $tree,
            '--strip-components=1');
        said('sed', '-i', "1s/($version)/($this)/", "$tree/debian/changelog");
        said('sed', '-i', "/NGX_HTTP_DSEM_VERSION/s/\"$version\"/\"$this\"/",
            "$tree/ngx_module/ngx_http_dsem_module.h");
        inside("$suite-build", 'make', '-s', '-C', $tree, 'deb');
        my ($deb) = grep { !/dbgsym/ } glob "$tree/build/deb/*.deb";
        push @package, $deb;
    }
    is(join('', grep { !/running with root/ } map { "$_\n" } split /\n/,
        inside("$suite-build", 'lintian', '-I', '--pedantic',
            # that of Debian 12
            '--suppress-tags', 'out-of-date-standards-version',
            glob "$dir/$version/build/deb/*.changes")), '',
        "$suite: lintian is content");
    return $version, $newer, @package;
}

sub works {
    my ($suite, $version, $newer, %got) = @_;
    my $ok = 1;
    my $is = sub { $ok &= is($got{$_[0]}, $_[1], "$suite: $_[0]") };
    $ok &= unlike($got{depends} // 'hiredis', qr/hiredis/,
        "$suite: hiredis not needed");
    $ok &= like($got{depends}, qr/\bnginx-abi-/, "$suite: for this nginx only");
    # hiredis of Debian 12 has no TLS
    $ok &= like($got{depends}, qr/\blibssl/, "$suite: with TLS")
        if $suite ne 'bookworm';
    $is->('enabled', '90-mod-http-dsem.conf');
    $is->('capped', 'request passed: ok one of two rejected: ok '
        . 'permit released: ok');
    $is->('first version', $version);
    $is->('installed', $newer);
    # nginx does not load a file again that it has loaded
    $is->('version after the reload', $version);
    $is->('version after the upgrade', $newer);
    $ok &= like($got{answers}, qr/^\d+ 200$/, "$suite: no request failed");
    $is->('logged', "dsem: version $newer");
    $is->('alerts', '');
    $is->('nginx after the purge', 200);
    $is->('left or missing', '');
    $is->("dpkg's", '');
    return $ok;
}
