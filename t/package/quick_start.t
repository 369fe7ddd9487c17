#!/usr/bin/perl

# The quick start of README.md, word by word. With LONG=1, as root: in new roots
# of Debian 12 and 13 a user with sudo types its commands, which print what it
# shows, and the way back leaves no limit. Packages are downloaded before.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cwd qw(abs_path);
use File::Path qw(make_path remove_tree);
use Time::HiRes qw(time);

use Dsem::Pages;
use Dsem::Roots;

my $root = abs_path("$FindBin::Bin/../..");

my $text = section('Quick start');
my @blocks = map { s/^    //mgr } $text =~ /^((?: {4}.*\n)+)/mg;
my @typed = grep { /^(?:sudo|\(for) / } @blocks;
my ($codes, $logged) = grep { !/^(?:sudo|\(for) / } @blocks;
my @shown = $codes =~ /^(\d+ [A-Z]+) [\d.]+$/mg;

is(scalar @typed, 4, 'four blocks of commands');
is(scalar @shown, 6, 'six answers shown');
like($logged, qr/^dsem rejected: /, 'a sentence of the log shown');
# a block is pasted as a whole: sudo and apt read lines that the shell has not read
is_deeply([grep { /^ *sudo / && !/(?:&&|<<'EOF')$/ }
        map { (split /\n/)[0 .. tr/\n// - 2] } @typed], [],
    'no line is taken for an answer');

SKIP: {
    my $reason = unfit('walks through it');
    skip $reason, 1 if $reason;
    walked($_) for qw(bookworm trixie);
}

done_testing();

###############################################################################

sub walked {
    my ($suite) = @_;
    my $dir = "$root/build/t/package/quick_start";
    my $name = "$suite-walk";
    remove_tree($dir);
    make_path($dir);
    # build/ may have those of other versions
    my ($sources) = said('make', '-s', '-C', $root, 'dist')
        =~ m{(build/dsem-\S+\.tar\.gz)};
    said("$root/t/matrix/debian", $suite, roots() . "/$suite");
    my $new = fresh($suite, $name);
    write_to("$dir/before", before($sources));
    write_to("$dir/typed", join '', map {
        ($typed[$_] =~ /^\(for/ ? "sleep 3   # to type it\n" : '')
            . "echo ::: \$SECONDS\n$typed[$_]" } 0 .. $#typed);
    write_to("$dir/typed", <<'EOF_AFTER', '>>');
echo ::: $SECONDS
sudo grep -h dsem /var/log/nginx/error.log
for i in $(seq 1000); do curl -s http://127.0.0.1:8000/ > /dev/null || break; done
curl -sS http://127.0.0.1:8000/
ls /etc/nginx/modules-enabled
EOF_AFTER

    my $begin = time;
    $ENV{NETWORK} = 1;
    inside($name, 'sh', "$dir/before");
    delete $ENV{NETWORK};
    note(sprintf '%s: %.0f s to download packages', $suite, time - $begin);
    $begin = time;
    my $said = inside($name, 'sh', '-c',
        "chown -R ann /home/ann && chmod 644 $dir/typed && "
        . "su ann -c 'cd /home/ann/dsem-* && bash $dir/typed' 2>&1 < /dev/null");
    my @printed = grep { /^::: / } split /^(?=::: \d+$)/m, $said;
    my @begun = $said =~ /^::: (\d+)$/mg;
    note("$suite: the blocks begin @begun s after that");

    my $ok = is(scalar @begun, 5, "$suite: to the end");
    $ok &= like($printed[0], qr/^make: built .*\.deb$/m, "$suite: built");
    $ok &= like($printed[0], qr/^make: building the package/m,
        "$suite: says what it does");
    $ok &= like($printed[1], qr/test is successful/, "$suite: valid");
    $ok &= is_deeply([sort $printed[2] =~ /^(\d+ [A-Z]+) [\d.]+$/mg], [sort @shown],
        "$suite: six answers, as shown");
    my ($sentence) = $logged =~ /^(.*)$/m;
    $ok &= like($printed[4], qr/\Q$sentence\E/, "$suite: logged");
    $ok &= like($printed[4], qr/^curl: \(7\)/m, "$suite: no server left");
    $ok &= unlike($printed[4], qr/90-mod-http-dsem/, "$suite: nor the module");
    diag($said) unless $ok;
    said('rm', '-rf', $new);
}

# What a system has that is in use: sudo, a user, and here the packages.
sub before {
    my ($sources) = @_;
    return <<"EOF_BEFORE";
set -e
export DEBIAN_FRONTEND=noninteractive
echo 'APT::Get::Assume-Yes "true";' > /etc/apt/apt.conf.d/yes
apt-get update -q
apt-get install -qy --no-install-recommends sudo
echo "127.0.0.1 localhost \$(cat /proc/sys/kernel/hostname)" > /etc/hosts
useradd -m -s /bin/bash ann
echo 'ann ALL = NOPASSWD: ALL' > /etc/sudoers.d/ann
tar -xzf $sources -C /home/ann
apt-get install -qy --download-only nginx redis-server curl make
missing=\$(cd /home/ann/dsem-* && setpriv --reuid ann --clear-groups make -s deb-needs 2>&1 \\
    | sed -n 's/.*install these packages: //p')
apt-get install -qy --download-only --no-install-recommends \$missing
EOF_BEFORE
}

sub write_to {
    my ($path, $what, $how) = @_;
    open my $fh, $how // '>', $path or die "$path: $!";
    print $fh $what;
    close $fh or die "$path: $!";
}
