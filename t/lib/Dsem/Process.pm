package Dsem::Process;

# A child process in a process group of its own. Owns the list of all children:
# each group is killed at the end of the test, by a guard process if the test
# itself is killed.
#
# Called by: everything in the harness that starts something.

use strict;
use warnings;

use Config;
use Carp qw(croak);
use IO::Handle;
use POSIX qw(WNOHANG _exit);

use Dsem::Wait qw(poll);

my $PR_SET_CHILD_SUBREAPER = 36;
my %SYS_PRCTL = (x86_64 => 157, aarch64 => 167, i686 => 172, arm => 172);

my @all;
my $guard;

# argv => [...]: command to execute, or code => sub to run in a fork (keep: file
# handles that it uses); log: file for its output.
sub spawn {
    my ($class, %opt) = @_;
    $guard //= _guard();
    my $pid = fork // croak "fork: $!";
    if (!$pid) {
        eval { _child(%opt) };
        print STDERR $@ if $@;
        _exit(127);
    }
    # here as well: a child may end before it has created its group
    setpgrp $pid, $pid;
    return $class->adopt($pid, $opt{name});
}

# Owns a process started by a child; it must lead its group.
sub adopt {
    my ($class, $pid, $name) = @_;
    my $self = bless {
        pid => $pid, group => $pid, name => $name, owner => $$,
    }, $class;
    push @all, $self;
    print $guard "+$pid\n";
    return $self;
}

sub _child {
    my (%opt) = @_;
    setpgrp;
    $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
    open STDIN, '<', '/dev/null' or die "/dev/null: $!";
    open STDOUT, '>>', $opt{log} or die "$opt{log}: $!";
    open STDERR, '>&', \*STDOUT or die "stderr: $!";

    if ($opt{argv}) {
        exec { $opt{argv}[0] } @{ $opt{argv} }
            or die "$opt{argv}[0]: $!\n";
    }
    _drop_all_but(0, 1, 2, map { fileno $_ } @{ $opt{keep} // [] });
    STDOUT->autoflush(1);
    $opt{code}->();
    _exit(0);
}

# Starts the guard: it reads the start and end of each group from a pipe, and
# kills the remaining groups when the test has closed the pipe or died. Orphans
# become children of the test instead of init, so that it can wait for them.
sub _guard {
    my $prctl = $SYS_PRCTL{ (split /-/, $Config{archname})[0] };
    syscall $prctl, $PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 if $prctl;

    pipe my $from, my $to or croak "pipe: $!";
    my $pid = fork // croak "fork: $!";
    if ($pid) {
        $to->autoflush(1);
        return $to;
    }
    setpgrp;
    $SIG{$_} = 'IGNORE' for qw(INT TERM HUP);
    my %group;
    _drop_all_but(fileno $from);
    while (my $line = <$from>) {
        my ($begun, $pid) = $line =~ /^([+-])(\d+)$/ or next;
        $begun eq '+' ? $group{$pid} = 1 : delete $group{$pid};
    }
    kill 'KILL', map { -$_ } keys %group;
    _exit(0);
}

# Replaces inherited descriptors by /dev/null: a copy of a client's connection
# would suppress its FIN. The numbers stay in use, because Perl counts handles
# by number and would not close a new handle with the number of an old one.
sub _drop_all_but {
    my %keep = map { $_ => 1 } @_;
    opendir my $dir, '/proc/self/fd' or die "/proc/self/fd: $!";
    my @fds = grep { /^\d+$/ && !$keep{$_} } readdir $dir;
    closedir $dir;
    my $null = POSIX::open('/dev/null', POSIX::O_RDWR()) // die "null: $!";
    POSIX::dup2($null, $_) for @fds;
}

sub pid { $_[0]{pid} }

sub alive {
    my ($self) = @_;
    return 0 if defined $self->{status};
    my $got = waitpid $self->{pid}, WNOHANG;
    return kill 0, $self->{pid} if $got < 0;
    $self->{status} = $? if $got;
    return !$got;
}

# Another process now leads the group (a binary upgrade of nginx).
sub succeed {
    my ($self, $pid) = @_;
    $self->wait_exit(60)
        or croak "process $self->{pid} goes on beside its successor";
    delete $self->{status};
    $self->{pid} = $pid;
}

sub status { $_[0]{status} }

sub signal {
    my ($self, $signal) = @_;
    return kill $signal, $self->{pid};
}

sub signal_group {
    my ($self, $signal) = @_;
    return kill $signal, -$self->{group};
}

sub wait_exit {
    my ($self, $timeout) = @_;
    return poll(sub { !$self->alive }, $timeout);
}

# Kills the whole group.
sub end {
    my ($self) = @_;
    return if $self->{owner} != $$;
    $self->signal_group('KILL');
    waitpid $self->{pid}, 0 if $self->alive;
    $self->{status} //= $?;
    print $guard "-$self->{group}\n";
}

sub end_all {
    local $?;
    $_->end for @all;
    1 while waitpid(-1, WNOHANG) > 0;
    @all = ();
}

1;
