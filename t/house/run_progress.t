#!/usr/bin/perl

# While packages are installed, or anything else takes long, make shows that it
# goes on: on a terminal in one line, elsewhere by a line every few seconds. A
# failure shows what was said.

###############################################################################

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Pty;
use IO::Select;
use POSIX ();

use Dsem::Test;

###############################################################################

my $t = Dsem::Test->new;
my $dir = $t->dir;
my $root = "$FindBin::Bin/../..";
my $progress = "$root/t/run/progress";

# commands that end when they are told

program('slow', "echo first; echo '  Unpacking nginx (1.26)  '", wait_for_go(),
    'exit 3');

sub wait_for_go { "while [ ! -e $dir/go ]; do sleep 0.05; done" }

sub program {
    my ($name, @lines) = @_;
    mkdir "$dir/bin";
    open my $fh, '>', "$dir/bin/$name" or die "$name: $!";
    print $fh map { "$_\n" } '#!/bin/sh', @lines;
    close $fh;
    chmod 0755, "$dir/bin/$name";
}

# Tells them.
sub go {
    open my $fh, '>', "$dir/go" or die "go: $!";
}

# Output and exit status of a command, without a terminal or on one. So many of
# such lines are awaited before go().
sub run {
    my ($tty, $n, $line, @argv) = @_;
    unlink "$dir/go";
    go() unless $n;
    my ($from, $to) = $tty ? (IO::Pty->new) x 2 : ();
    pipe $from, $to or die "pipe: $!" if !$tty;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        my $out = $tty ? $from->slave : $to;
        POSIX::dup2(fileno $out, $_) for 1, 2;
        close $from;
        exec @argv or POSIX::_exit(127);
    }
    $tty ? $from->close_slave : close $to;
    my ($ready, $said, $ended) = (IO::Select->new($from), '');
    wait_for {
        while (!$ended && $ready->can_read(0)) {
            sysread $from, $said, 4096, length $said or $ended = 1;
        }
        go() if $n && $n <= (() = $said =~ /$line/g);
        $ended;
    } 60, 'the command to end';
    waitpid $pid, 0;
    return ($said, $? >> 8);
}

# anywhere else

my $line = qr/packages, \d+ s: Unpacking nginx \(1\.26\)/;
my ($said, $status) = run(0, 2, $line, $progress, 'packages',
    "$dir/bin/slow");
is($status, 3, 'exit status of the command');
like($said, qr/\Apackages,\ 3\ s:\ Unpacking\ nginx\ \(1\.26\)\n
    packages,\ 6\ s:\ Unpacking\ nginx\ \(1\.26\)\n/x, 'a line every 3 s');
like($said, qr/\nfirst\n  Unpacking nginx \(1\.26\)  \n\z/,
    'a failure shows its output');
unlike($said, qr/[^ -~\n]/, 'plain text');

($said, $status) = run(0, 0, undef, $progress, 'packages', 'echo', 'done');
is_deeply([$said, $status], ['', 0], 'silent when it is quick');

# on a terminal

($said, $status) = run(1, 2, $line, $progress, 'packages',
    "$dir/bin/slow");
is($status, 3, 'terminal: exit status');
like($said, qr/\A\r$line\e\[K\r$line\e\[K[^\n]*\r\e\[Kfirst\r\n/,
    'terminal: one line, overwritten and cleared');
like($said, qr/packages, 2 s/, 'terminal: each second');

# packages: a machine that has none of them, and an apt-get of our own

program('dpkg-query');
program('id', 'echo 0');
program('apt-get', 'echo "apt-get $*"', "echo 'Unpacking redis-server'",
    wait_for_go(), "! [ -e $dir/broken ]");
my @make = ('env', '-u', 'MAKEFLAGS', "PATH=$dir/bin:$ENV{PATH}", 'make',
    '--no-print-directory', '-C', $root, 'run-needs');
$line = qr/make: installing packages, \d+ s: Unpacking redis-server\n/;
($said, $status) = run(0, 1, $line, @make);
is($status, 0, 'packages installed') or diag $said;
like($said, qr/\Amake: installing packages: .*\bredis-server\b.*\n$line/,
    'packages named, then progress');
unlike($said, qr/apt-get/, 'success: no output of apt-get');

open my $broken, '>', "$dir/broken" or die "broken: $!";
($said, $status) = run(0, 0, $line, @make);
isnt($status, 0, 'packages not installed');
like($said, qr/^apt-get install .*\n(?:.*\n)*apt-get update /m,
    'failure: output of apt-get');

# what else takes long

open my $makefile, '<', "$root/Makefile" or die "Makefile: $!";
my $text = do { local $/; <$makefile> };
for my $command ('dpkg-buildpackage', '--add-dynamic-module', 'modules') {
    like($text, qr/\$\(PROGRESS\)(?:[^\n]*\\\n)*[^\n]*\Q$command\E\b/,
        "with progress: $command");
}

done_testing();
