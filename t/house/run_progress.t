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

use Dsem::Program qw(write_program);
use Dsem::Test;

###############################################################################

my $t = Dsem::Test->new;
my $dir = $t->dir;
my $root = "$FindBin::Bin/../..";
my $progress = "$root/t/run/progress";

# commands that end when they are told

program('slow', "echo first; echo '  Unpacking nginx (1.26)  '", wait_for_go(),
    'exit 3');

sub wait_for_go { 'while [ ! -e "$GO" ]; do sleep 0.05; done' }

sub program {
    my ($name, @lines) = @_;
    mkdir "$dir/bin";
    write_program("$dir/bin/$name", join '', map { "$_\n" } '#!/bin/sh', @lines);
}

my $started = 0;

# Starts a command, without a terminal or on one. It is told to end after so
# many of such lines.
sub start {
    my ($tty, $n, $line, @argv) = @_;
    my $go = "$dir/go" . ++$started;
    my ($from, $to) = $tty ? (IO::Pty->new) x 2 : ();
    pipe $from, $to or die "pipe: $!" if !$tty;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        my $out = $tty ? $from->slave : $to;
        POSIX::dup2(fileno $out, $_) for 1, 2;
        close $from;
        $ENV{GO} = $go;
        exec @argv or POSIX::_exit(127);
    }
    $tty ? $from->close_slave : close $to;
    return { pid => $pid, from => $from, go => $go, n => $n, line => $line,
        ready => IO::Select->new($from), said => '' };
}

# Reads what they print until all of them have ended. Returns the output and
# the exit status of each.
sub ended {
    my (@runs) = @_;
    wait_for {
        read_from($_) for grep { !$_->{ended} } @runs;
        !grep { !$_->{ended} } @runs;
    } 60, 'the commands to end';
    return map {
        waitpid $_->{pid}, 0;
        [$_->{said}, $? >> 8];
    } @runs;
}

sub read_from {
    my ($run) = @_;
    while (!$run->{ended} && $run->{ready}->can_read(0)) {
        sysread $run->{from}, $run->{said}, 4096, length $run->{said}
            or $run->{ended} = 1;
    }
    return if $run->{n} > (() = $run->{said} =~ /$run->{line}/g);
    open my $fh, '>', $run->{go} or die "go: $!";
}

# all that takes long, at one time: anywhere, on a terminal, and the packages of
# a machine that has none of them, with an apt-get of our own

program('dpkg-query');
program('id', 'echo 0');
program('apt-get', 'echo "apt-get $*"', "echo 'Unpacking redis-server'",
    wait_for_go(), "! [ -e $dir/broken ]");
my @make = ('env', '-u', 'MAKEFLAGS', "PATH=$dir/bin:$ENV{PATH}", 'make',
    '--no-print-directory', '-C', $root, 'run-needs');
my $line = qr/packages, \d+ s: Unpacking nginx \(1\.26\)/;
my $installing = qr/make: installing packages, \d+ s: Unpacking redis-server\n/;
my @slow = ($progress, 'packages', "$dir/bin/slow");
my ($anywhere, $quick, $terminal, $packages) = ended(
    start(0, 2, $line, @slow),
    start(0, 0, qr//, $progress, 'packages', 'echo', 'done'),
    start(1, 2, $line, @slow), start(0, 1, $installing, @make));

# anywhere else

my ($said, $status) = @$anywhere;
is($status, 3, 'exit status of the command');
like($said, qr/\Apackages,\ 3\ s:\ Unpacking\ nginx\ \(1\.26\)\n
    packages,\ 6\ s:\ Unpacking\ nginx\ \(1\.26\)\n/x, 'a line every 3 s');
like($said, qr/\nfirst\n  Unpacking nginx \(1\.26\)  \n\z/,
    'a failure shows its output');
unlike($said, qr/[^ -~\n]/, 'plain text');

is_deeply($quick, ['', 0], 'silent when it is quick');

# on a terminal

($said, $status) = @$terminal;
is($status, 3, 'terminal: exit status');
like($said, qr/\A\r$line\e\[K\r$line\e\[K[^\n]*\r\e\[Kfirst\r\n/,
    'terminal: one line, overwritten and cleared');
like($said, qr/packages, 2 s/, 'terminal: each second');

# packages

($said, $status) = @$packages;
is($status, 0, 'packages installed') or diag $said;
like($said,
    qr/\Amake: installing packages: .*\bredis-server\b.*\n$installing/,
    'packages named, then progress');
unlike($said, qr/apt-get/, 'success: no output of apt-get');

open my $broken, '>', "$dir/broken" or die "broken: $!";
($said, $status) = @{ (ended(start(0, 0, qr//, @make)))[0] };
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
