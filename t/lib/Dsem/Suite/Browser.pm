package Dsem::Suite::Browser;

# One browser for the files of t/page of a run, from the first of them to the
# last: to start one takes three seconds of a processor. Each file has a window of
# its own, with nothing remembered. A file that runs alone has its own browser.
#
# Called by: Dsem::Suite.

use strict;
use warnings;

use File::Temp ();
use List::Util qw(sum0);

sub new {
    my ($class, @files) = @_;
    my $left = sum0(map { is_page($_) } @files);
    return bless { left => $left > 1 ? $left : 0 }, $class;
}

sub is_page { $_[0] =~ m{(?:^|/)t/page/} ? 1 : 0 }

# A file begins.
sub before {
    my ($self, $file) = @_;
    return if !is_page($file) || !$self->{left} || $ENV{DSEM_BROWSER};
    # with Dsem::Test, which Dsem::Suite::File loads in its way
    require Dsem::Browser;
    $self->start if !Dsem::Browser::browser_missing();
}

# It has ended.
sub after {
    my ($self, $file) = @_;
    $self->end if is_page($file) && $self->{left} && !--$self->{left};
}

sub start {
    my ($self) = @_;
    $self->{directory} = File::Temp->newdir;
    my $socket = "$self->{directory}/browser";
    my @argv = Dsem::Browser::command($socket, $$);
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN, '<', '/dev/null' or die "/dev/null: $!\n";
        open STDOUT, '>', "$socket.log" or die "$socket.log: $!\n";
        open STDERR, '>&', \*STDOUT or die "stderr: $!\n";
        exec { $argv[0] } @argv or die "$argv[0]: $!\n";
    }
    $self->{pid} = $pid;
    $ENV{DSEM_BROWSER} = $socket;
}

sub end {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    delete $ENV{DSEM_BROWSER};
    kill 'TERM', $pid;
    waitpid $pid, 0;
}

1;
