#!/usr/bin/perl

# make bench-instructions: counts with valgrind how many instructions nginx
# executes per request, by owner. One nginx process, eight clients with one
# request at a time; the kernel is not counted. The figures hardly vary, so one
# round is enough.
#
# With arguments, only the lines of these numbers. Environment: REQUESTS (2000)
# for each line.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Bench::Backend;
use Bench::Callgrind;
use Bench::Machine;
use Bench::Print qw(title grouped);
use Bench::Stage;
use Bench::Subject;
use Dsem::Load;

my %QUIET = (name => 'quiet', limit => 1000, queue => 100,
    path => '/quick');
# a service time in which every client returns to the queue
my %QUEUED = (name => 'queued', limit => 1, queue => 100,
    path => '/sleep/5');
my %REFUSED = (name => 'refused', limit => 0, queue => 100,
    path => '/quick');
my @LINES = (
    ['not capped', plain => %QUIET],
    ['free', limit_conn => %QUIET],
    ['free', reuse => %QUIET],
    ['free', no_reuse => %QUIET],
    ['queued', reuse => %QUEUED],
    ['queued', no_reuse => %QUEUED],
    ['refused', no_reuse => %REFUSED],
    ['API', reuse => %QUIET],
);
my @OWNERS = qw(nginx dsem hiredis libc);
my $CLIENTS = 8;

my $stage = Bench::Stage->program('instructions');
my $first;
my $requests = $ENV{REQUESTS} || 2000;

print "$_\n" for Bench::Machine::lines(qw(nginx Redis));
my $backend = Bench::Backend->new($stage);

title("Instructions of nginx for a request, of $requests requests");
printf "%-11s%-19s%8s%8s%8s%8s%8s%8s\n", @$_ for
    ['', '', '', 'above', ('') x 4],
    ['request', '', 'all', 'first', @OWNERS];
for (@LINES[ @ARGV ? map { $_ - 1 } @ARGV : 0 .. $#LINES ]) {
    my ($request, $key, %case) = @$_;
    my ($name, %n) = count($key, \%case, $request eq 'API');
    $first //= \%n;
    printf "%-11s%-19s%8s%8s%8s%8s%8s%8s\n", $request, $name,
        grouped($n{all}), map { grouped($n{$_} - $first->{$_}) }
        'all', @OWNERS;
}

# The subject's title, and instructions per request: all, and by owner. Of the
# API: GET /semaphores.
sub count {
    my ($key, $case, $api) = @_;
    my $callgrind = Bench::Callgrind->new($stage);
    my $subject = $callgrind->around(sub {
        Bench::Subject->start($stage, $key, nodes => 1, workers => 1,
            cases => [$case], backend => $backend);
    });
    load($subject->urls($case), $requests / 10);
    my ($url) = $api ? $subject->api : $subject->urls($case);
    $callgrind->begin($subject->servers);
    load($url, $requests);
    my %n = $callgrind->counted;
    $subject->end;
    return $subject->title, map { $_ => $n{$_} / $requests } keys %n;
}

sub load {
    my ($url, $n) = @_;
    my $result = Dsem::Load->new($stage, urls => [$url], requests => $n,
        clients => $CLIENTS, keepalive => 1)->wait;
    my @wrong = grep { !/^(?:200|503)$/ } keys %{ $result->{statuses} };
    die "$url answered @wrong\n" if @wrong;
}
