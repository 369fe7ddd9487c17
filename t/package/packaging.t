#!/usr/bin/perl

# packaging/: versions agree, what is named is there, scripts and the Dockerfile
# are well-formed, its README and docs/install.md name what can be run. Building
# the packages is "make packages".

use warnings;
use strict;

use Test::More;

use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Pages;

my $root = "$FindBin::Bin/../..";
chdir $root or die "$root: $!";

my $makefile = page('Makefile');
my $spec = page('packaging/rpm/nginx-module-dsem.spec');
my $apkbuild = page('packaging/apk/APKBUILD');
my $dockerfile = page('packaging/docker/Dockerfile');
my $modules = 'packaging/docker/modules/dsem';
my $prebuild = page("$modules/prebuild");
my $readme = page('packaging/README.md');

# versions

my ($version) = page('ngx_module/ngx_http_dsem_module.h')
    =~ /^#define NGX_HTTP_DSEM_VERSION  "(.*?)"$/m;
my %spec = $spec =~ /^%global (\w+)_version (\S+)$/mg;
my %apk = $apkbuild =~ /^_(\w+)=(\S+)$/mg;
is($spec{dsem}, $version, 'spec: version of the module');
is_deeply(\%apk, \%spec, 'APKBUILD has the versions of the spec');
like($spec, qr/^%changelog\n\*.* - \Q$spec{nginx}+$version\E-1\.ngx$/m,
    'spec: changelog');
is(page("$modules/source"), "/modules/dsem/dsem-$version\n",
    'builder of docker-nginx: sources');
like($prebuild, qr/^version=\Q$spec{hiredis}\E$/m, 'prebuild: hiredis');
is_deeply([$readme =~ /\b(?:dsem|nginx|hiredis)-(\d[\d.]*\d)/g], [
    map { $spec{$_} } $readme =~ /\b(dsem|nginx|hiredis)-\d/g],
    'README.md: versions');

# the name, and the module that it brings

my ($module) = page('config') =~ /^ngx_addon_name=(\w+)/m;
like($spec, qr/^Name: +nginx-module-dsem$/m, 'spec: name');
like($apkbuild, qr/^pkgname=nginx-module-dsem$/m, 'APKBUILD: name');
like($_->[1], qr{\bmodules/$module\.so\b}, "$_->[0]: module")
    for ['spec', $spec], ['APKBUILD', $apkbuild], ['Dockerfile', $dockerfile];
like($_->[1], qr{packaging/nginx\.org\b}, "$_->[0]: nginx.org's options")
    for ['spec', $spec], ['APKBUILD', $apkbuild], ['Dockerfile', $dockerfile];

my @options = split /\n/, page('packaging/nginx.org');
is($options[0], '--with-compat', 'nginx.org: compatible');
is_deeply([grep { !/^--with-[\w-]+$/ } @options], [], 'nginx.org: options only');

# what is named is there

is_deeply([grep { !-e } map { /^COPY (?!--from)(.*) \S+$/ ? split ' ', $1 : () }
        split /\n/, $dockerfile], [], 'Dockerfile: what it copies');
is_deeply([grep { !-e } $spec =~ m{dsem-%\{dsem_version\}/([\w./]+)}g], [],
    'spec: files of the sources');
is_deeply([grep { !-e } $apkbuild =~ m{dsem-\$_dsem/([\w./]+)}g], [],
    'APKBUILD: files of the sources');
ok(-x, "$_ can be run") for 'packaging/hiredis', "$modules/prebuild",
    map { "t/package/$_" } qw(compat musl packages rpm source);
is_deeply([sort map { s{^\Q$modules\E/}{}r } glob "$modules/*"],
    [qw(build-deps prebuild source)], 'files of the builder');

# form

is(qx(sh -n $_ 2>&1), '', "$_: syntax")
    for 'packaging/hiredis', "$modules/prebuild", 'packaging/apk/APKBUILD';

my @stages = $dockerfile =~ /^FROM (.*)$/mg;
is_deeply(\@stages, ['${NGINX} AS build', '${NGINX}'],
    'Dockerfile: the nginx that it runs is that of the build');
my ($last) = $dockerfile =~ /^.*^FROM (.*)\z/ms;
like($last, qr/^USER nginx$/m, 'Dockerfile: another user than root');
# that of the image may be one that may not install, as that of F5's controller
like($_, qr/\A(?:(?!RUN ).*\n)*USER root\n/, 'Dockerfile: root until then')
    for $dockerfile =~ /^FROM .*\n((?:(?!FROM ).*\n)*)/mg;
unlike($last, qr/apt-get|apk add|\bgcc\b/, 'Dockerfile: no tools in the end');
unlike($dockerfile, qr/:latest|^ADD |sudo/m, 'Dockerfile: no bad habits');
for my $command ($dockerfile =~ /^RUN ((?:.*\\\n)*.*)$/mg) {
    my $text = $command =~ s/\\\n/\n/gr;
    open my $sh, '|-', 'sh', '-n' or die "sh: $!";
    print $sh $text =~ s/\n/ /gr;
    ok(close $sh, 'Dockerfile: ' . substr $text =~ s/\s+/ /gr, 0, 40);
}

# README.md and docs/install.md: targets, variables and files

my $install = page('docs/install.md');
for my $page (['packaging/README.md', $readme], ['docs/install.md', $install]) {
    my ($name, $text) = @$page;
    my @lines = $text =~ /^    (.*(?:\\\n.*)*)$/mg;
    my @make = map { /^(?:sudo )?make (.*)/s ? $1 : () } @lines,
        $text =~ /`(make [^`]+)`/g;
    my @target = map { grep { /^[a-z][\w-]*$/ } split ' ', s/"[^"]*"//gr }
        @make;
    is_deeply([grep { $makefile !~ /^\Q$_\E:/m } @target], [],
        "$name: targets of make");
    my @variable = map { /\b([A-Z_]+)=/g } @make;
    is_deeply([grep { $makefile !~ /^$_ =/m } @variable], [],
        "$name: variables of make");
    my @file = map { m{(?<![\w/.-])((?:packaging|t|bin)/[\w./-]+\w)}g } @lines;
    is_deeply([grep { !-e } @file], [], "$name: files");
}
like($readme, qr/^## \Q$_\E/m, "README.md: section $_")
    for 'nginx.org', 'RPM', 'Alpine', "nginx's image", 'docker-nginx',
        'OpenResty', 'Angie', 'Debian: an ITP', 'Proposals';
like($makefile, qr/^\t\@echo 'make packages /m, 'make help names packages');

# where nginx looks for modules differs between systems, and nginx says it; a
# source with an address is in a folder of its own for abuild, unless told

my %section = $readme =~ /^## ([^\n]+)\n(.*?)(?=^## |\z)/msg;
my %commands = map { $_ => [$section{$_} =~ /^    (\S.*)$/mg] } keys %section;
is_deeply([grep { /\bPREFIX=/ } @{ $commands{'nginx.org'} }], [],
    'nginx.org: the directory of modules is that of nginx');
my @abuild = map { /&&|^abuild / ? grep { /^abuild / } split / && / : () }
    @{ $commands{Alpine} };
is_deeply([grep { !/^abuild -s "\$PWD" / } @abuild], [],
    'Alpine: the sources are in the folder of the APKBUILD');
is(scalar @abuild, 2, 'Alpine: checksums, and the package');
my $keys = 0;
for my $command (@{ $commands{Alpine} }) {
    $keys ||= $command =~ /^abuild-keygen .*-a/;
    ok($keys, 'Alpine: first a key') if $command =~ /\babuild .* -r$/;
}
like($section{Alpine}, qr/^    addgroup \w+ abuild$/m, 'Alpine: a user builds');

# the address to be filled in: by the command that README.md shows, all of them

my ($command) = $readme =~ /^    (grep -rl (?:.*\\\n)*.*)$/m;
my $copy = tempdir(CLEANUP => 1);
is(system('cp', '-r', 'packaging', 'debian', $copy), 0, 'copied');
is(system("cd $copy && $command"), 0, 'the address is set');
is(qx(grep -rn -e '[/\@]dsem[.]example' -e '<address>' $copy), '', 'in all places');
is(qx(grep -c 'https://forge[.]example/dsem' $copy/packaging/apk/APKBUILD), "1\n",
    'APKBUILD has it');
is_deeply([grep { page($_) =~ /dsem\.example/ } 'README.md', 'Makefile',
    glob 'docs/*.md'], [], 'and no other file');

# the commands for the forks are those of the matrix

my $matrix = page('t/matrix/matrix');
for my $fork (qw(OpenResty Angie)) {
    my ($section) = $readme =~ /^## \Q$fork\E\n(.*?)(?=^## )/ms;
    my ($system) = $matrix =~ /^        \L$fork\E\) (.*)/m;
    is($section =~ /--add-module=/ ? 'linked in' : 'dynamic',
        $system =~ /how=static/ ? 'linked in' : 'dynamic',
        "$fork: as the matrix builds it");
}

done_testing();
