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

use Carp qw(croak);
use Exporter 'import';

use Dsem::Process;
use Dsem::Test ();

# s, in which something is heard of it: a test must not hang
use constant SILENT => 300;

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
        # the suite may be in the background of a shell, which ignores some
        $SIG{$_} = 'DEFAULT' for qw(HUP INT QUIT TERM);
        open STDOUT, '>&', $in;
        open STDERR, '>&', $in;
        close $_ for $in, $out;
        exec @$shell, $path, @args or die;
    }
    setpgrp $pid, $pid;
    my $process = Dsem::Process->adopt($pid, 'dsem-run');
    return bless { process => $process, out => $out }, $class;
}

sub pid { return $_[0]{process}->pid }

sub line {
    my ($self) = @_;
    local $SIG{ALRM} = sub { croak 'dsem-run is silent' };
    alarm SILENT;
    my $line = readline $self->{out};
    alarm 0;
    return $line;
}

sub finish {
    my ($self) = @_;
    my $out = do { local $/; $self->line } // '';
    $self->{process}->wait_exit(60) or croak 'dsem-run has closed its output';
    my $status = $self->{process}->status;
    return ($status & 127 ? 'signal ' . ($status & 127) : $status >> 8, $out);
}

1;
