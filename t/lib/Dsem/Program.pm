package Dsem::Program;

# bin/dsem-run, started by a test: in a process group of its own, with what it
# and its command write in one pipe.
#
#     my $run = Dsem::Program->start([$shell], @args);
#     $run->line;                       # the next line
#     my ($status, $rest) = $run->finish;   # 7, or 'signal 15'
#
# $path is its file. shells() are those of this machine, dash among them: pairs of
# a name and a command. commands() are the words of all processes, inputs() the
# files that they have as their standard input; write_program($file, $text) makes
# a text one.

use strict;
use warnings;

use Exporter 'import';

use Dsem::Test ();

our @EXPORT_OK = qw(commands inputs shells write_program);
our $path = "$Dsem::Test::ROOT/bin/dsem-run";

sub shells {
    return map { $_->[0] =~ m{(\w+)\z} => $_ } grep { -x $_->[0] }
        [ '/bin/dash' ], [ '/bin/busybox', 'sh' ], [ '/bin/bash', '--posix' ];
}

# some processes end meanwhile
sub commands {
    my @commands;
    for my $path (glob '/proc/[0-9]*/cmdline') {
        open my $file, '<', $path or next;
        push @commands, readline($file) // ();
    }
    return @commands;
}

sub inputs {
    return map { readlink // () } glob '/proc/[0-9]*/fd/0';
}

sub write_program {
    my ($file, $text) = @_;
    open my $out, '>', $file or die "$file: $!";
    print $out $text;
    close $out or die "$file: $!";
    chmod 0755, $file or die "$file: $!";
    return $file;
}

sub start {
    my ($class, $shell, @args) = @_;
    pipe my $out, my $in or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        setpgrp;
        open STDOUT, '>&', $in;
        open STDERR, '>&', $in;
        close $_ for $in, $out;
        exec @$shell, $path, @args or die;
    }
    return bless { pid => $pid, out => $out }, $class;
}

sub pid { return $_[0]{pid} }

sub line { return scalar readline $_[0]{out} }

sub finish {
    my ($self) = @_;
    my $out = do { local $/; readline $self->{out} } // '';
    waitpid $self->{pid}, 0;
    my $status = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
    return ($status, $out);
}

1;
