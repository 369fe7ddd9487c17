#!/usr/bin/perl

# make release: the same bytes from a checkout and from the sources that it has
# packed, with another umask and time zone; the checksums are right; the list of
# parts has each file once. The workflow for forges is valid by the schema of
# GitHub's, and calls targets and systems that are there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cpanel::JSON::XS qw(decode_json);
use Cwd qw(abs_path);
use Digest::SHA;
use File::Path qw(make_path remove_tree);

use Dsem::Pages;

my $root = abs_path("$FindBin::Bin/../..");
my $dir = "$root/build/t/package/release";

# nothing of the make that runs this test
delete @ENV{qw(MAKEFLAGS MAKELEVEL T LONG)};
chdir $root or die "$root: $!";
remove_tree($dir);
make_path("$dir/unpacked");

released($root, "$dir/one");
my ($tarball) = glob "$dir/one/*.tar.gz";
my ($name) = $tarball =~ m{/(dsem-[\d.]+)\.tar\.gz$};
is(system('tar', '-xzf', $tarball, '-C', "$dir/unpacked"), 0, 'unpacked');
released("$dir/unpacked/$name", "$dir/two", 'umask 077; TZ=Asia/Tokyo');
is(system('diff', '-r', "$dir/one", "$dir/two"), 0, 'the same bytes');
is_deeply([map { s{.*/}{}r } sort glob "$dir/one/*"],
    [qw(SHA256SUMS), "$name.spdx.json", "$name.tar.gz"], 'three files');
is(system("cd $dir/one && sha256sum --quiet -c SHA256SUMS"), 0, 'checksums');

# parts

my $parts = decode_json(slurp("$dir/one/$name.spdx.json"));
my @packed = split /\n/, qx(tar -tzf $tarball);
is_deeply([sort map { $_->{fileName} } @{ $parts->{files} }],
    [sort map { s{^\Q$name\E/}{./}r } @packed], 'each file once');
my @wrong = grep {
    my $path = "$dir/unpacked/$name/$_->{fileName}";
    my %sum = map { $_->{algorithm} => $_->{checksumValue} } @{ $_->{checksums} };
    $sum{SHA256} ne Digest::SHA->new(256)->addfile($path)->hexdigest
        || $sum{SHA1} ne Digest::SHA->new(1)->addfile($path)->hexdigest;
} @{ $parts->{files} };
is(scalar @wrong, 0, 'with their checksums');
my ($dsem) = @{ $parts->{packages} };
is("dsem-$dsem->{versionInfo}", $name, 'the version');
is($dsem->{checksums}[0]{checksumValue},
    Digest::SHA->new(256)->addfile($tarball)->hexdigest, 'of these sources');
my ($hiredis) = grep { $_->{relatedSpdxElement} eq 'SPDXRef-hiredis' }
    @{ $parts->{relationships} };
is($hiredis->{relationshipType}, 'STATIC_LINK', 'hiredis is linked in');

# the workflow

my $workflow = slurp("$root/packaging/ci/forge.yml");
my $makefile = slurp("$root/Makefile");
my $matrix = slurp("$root/t/matrix/matrix");
my @targets = $workflow =~ /^ +- run: make (\S+)/mg;
is_deeply([grep { $makefile !~ /^\Q$_\E:/m } @targets], [], 'targets are there');
like($workflow, qr{^ +- run: \.ci/run$}m, 'and .ci/run');
ok(-x "$root/.ci/run", 'which can be run');
my ($systems) = $workflow =~ /system: \[(.*?)\]/;
is_deeply([grep { $matrix !~ /^        \Q$_\E\)/m } split /, /, $systems], [],
    'systems are there');

SKIP: {
    my $modules = "$root/build/page";
    skip '"make test T=t/package" installs the packages of npm', 2
        unless -d "$modules/node_modules/\@action-validator";
    my $broken = "$dir/broken.yml";
    open my $fh, '>', $broken or die "$broken: $!";
    print $fh $workflow =~ s/^    runs-on:/    run-on:/mr;
    close $fh or die "$broken: $!";
    my $path = 'packaging/ci/forge.yml';
    my $said = decode_json(
        qx(node t/package/validate.mjs $modules workflow $path $broken));
    is_deeply($said->{$path}[0][1], [], 'valid by the schema');
    like("@{ $said->{$broken}[0][1] }", qr/run-on/, 'an unknown word is named');
}
like(slurp("$root/docs/SECURITY.md"), qr/^## How to report$/m, 'how to report');

remove_tree($dir) if Test::More->builder->is_passing;

done_testing();

###############################################################################

sub released {
    my ($tree, $to, $how) = @_;
    my $said = qx((@{[ $how // ':' ]}; make -s -C $tree release RELEASE=$to) 2>&1);
    is($?, 0, 'released') or diag $said;
}
