package Dsem::Suite::File;

# A test file as a fork of prove, which has loaded what nearly all files load:
# a Perl of its own for each would load the same for a tenth of a second. What
# it prints is read as that of any other program.
#
# Called by: Dsem::Suite.

use strict;
use warnings;

use parent 'TAP::Parser::Iterator::Process';

use IO::Handle;
use IO::Select;
use POSIX ();
use Test2::API ();

# Test::More gets its state in each file; where a test loads this, it has one
my $preloads;
BEGIN {
    $preloads = !$INC{'Test/More.pm'};
    Test2::API::test2_start_preload() if $preloads;
}
use Test::More ();
use Dsem::Scripts ();
use Dsem::Test ();
BEGIN {
    Test2::API::test2_stop_preload() if $preloads;
    delete $ENV{T2_IN_PRELOAD};
}

# a comment in what the file prints
use constant EXCEEDED => 'limit exceeded';

sub _initialize {
    my ($self, $file) = @_;
    my @pipe = map { pipe my $from, my $to or die "pipe: $!"; [$from, $to] }
        1, 2;
    $_->flush for \*STDOUT, \*STDERR;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        POSIX::dup2(fileno $pipe[ $_ - 1 ][1], $_) for 1, 2;
        undef @pipe;
        eval { run($file); 1 } or print STDERR $@;
        # with the END blocks, as after any other program that has died
        exit 255;
    }
    my ($out, $err) = map { $_->[0] } @pipe;
    @$self{qw(out err sel pid chunk_size)} = ($out, $err,
        IO::Select->new($out, $err), $pid, 65_536);
    return $self;
}

# Ends the process.
sub run {
    my ($file) = @_;
    $0 = $file;
    @ARGV = ();
    srand;
    Test2::API::test2_formatter_add('Test::Builder::Formatter');
    Test2::API::test2_reset_io();
    Test::Builder->new->reset;
    note_exceeded();
    package main;
    -r $file or die "$file: $!\n";
    do($file =~ m{^/} ? $file : "./$file");
    die $@ if $@;
    exit 0;
}

# The line of the test file that an event comes from.
sub line_of {
    my ($event) = @_;
    my (undef, $file, $number) = @{ $event->trace->frame };
    open my $from, '<', $file or return '';
    while (my $line = <$from>) {
        return $line if $. == $number;
    }
    return '';
}

# Prints the comment if the first assertion that fails is one that a limit was
# not exceeded, by its name or as it asks for the peak, and the figure is above
# it. What fails later may follow.
sub note_exceeded {
    my ($failed, $limit);
    Test2::API::test2_stack()->top->listen(sub {
        my ($hub, $event) = @_;
        if ($event->isa('Test2::Event::Ok')) {
            $limit = !$event->pass && !$failed
                && ($event->name // '') . line_of($event) =~ /exceeded|->peak/;
            $failed ||= !$event->pass;
        } elsif ($limit && $event->isa('Test2::Event::Diag')
            && $event->message =~ /'(\d+)'\s+(?:<=|expected:)\s+'(\d+)'/)
        {
            syswrite STDOUT, '# ' . EXCEEDED . "\n" if $1 > $2;
        }
    });
}

1;
