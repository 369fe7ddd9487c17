#!/usr/bin/perl

# make run: starts a small fleet on this machine and demonstrates under load
# that its limit holds. A second act shows fair shares and a limit that finds
# itself, a third one a limit for each server. On a terminal the fleet then runs
# until Ctrl-C. The page with which the nodes show the fleet is printed first,
# between the acts, and last.
#
#   fleet.pl [--port=8080] [--seconds=10]
#
# PORT in the environment is the same as --port. The nodes listen on this port
# and the next one, the backend on port + 10.
#
# Exit status: 0 the limit was reached and held, and no request of a quiet
# tenant was rejected, or the limit held and the machine was too busy to judge
# the rest; 1 otherwise; 2 the fleet could not be started.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Getopt::Long qw(GetOptions);

use Dsem::Wait qw(poll);

use Fleet;
use Fleet::Demo;
use Fleet::Ports;
use Fleet::Screen;
use Fleet::Second;
use Fleet::Tables;
use Fleet::Third;

# seconds beside the loads: the fleet's start, last responses, idle permits
use constant OTHER => 6;

my ($fleet, $screen);

$SIG{PIPE} = 'IGNORE';
$SIG{$_} = \&interrupted for qw(INT TERM HUP);

exit main();
END { Fleet::end() }

sub main {
    my %opt = options();
    $screen = Fleet::Screen->new;
    $fleet = Fleet->new(port => $opt{port});
    my $trouble = Fleet::Ports::unusable('run', $fleet->ports);
    refuse($trouble) if $trouble;
    $screen->takes(takes($opt{seconds}));
    eval {
        $screen->during('Starting the fleet.', sub { $fleet->start });
        1;
    } or refuse("the fleet did not start: $@");

    my $status = eval { acts($opt{seconds}) }
        // return failed("the demonstration broke off: $@");
    play($status) if $screen->tty;
    return $status;
}

# Seconds in all, about.
sub takes {
    my ($seconds) = @_;
    my $others = 0;
    $others += $_->new($fleet, seconds => $seconds)->seconds
        for qw(Fleet::Second Fleet::Third);
    return 5 * int(($seconds + $others + OTHER) / 5 + 0.5);
}

sub options {
    my %opt = (port => $ENV{PORT} || 8080, seconds => 10);
    GetOptions(\%opt, 'port=s', 'seconds=f') && !@ARGV
        or refuse('the options are --port=number and --seconds=number');
    refuse("PORT must be a number from 1 to 65525, not \"$opt{port}\"")
        if $opt{port} !~ /^\d{1,5}$/ || $opt{port} < 1
        || $opt{port} > 65525;
    refuse('--seconds must be at least 0.5') if $opt{seconds} < 0.5;
    return %opt;
}

sub refuse {
    failed(@_);
    exit 2;
}

sub failed {
    my ($sentence) = @_;
    chomp $sentence;
    print STDERR "make run: $sentence\n";
    return 1;
}

# Returns the exit status.
sub acts {
    my ($seconds) = @_;
    my @wrong = map { @{ $_->{wrong} } } first_act($seconds),
        second_act($seconds), third_act($seconds);
    my @leaked = leaked();
    $screen->failed('The limit', map { "permits of $_ are held after the last "
        . 'response' } @leaked);
    return @wrong || @leaked ? 1 : 0;
}

# An act returns its verdict.
sub first_act {
    my ($seconds) = @_;
    my $demo = Fleet::Demo->new($fleet, seconds => $seconds);
    my $limit = $fleet->semaphore->{limit};
    $screen->welcome($fleet, $demo);
    my $result = $demo->run(sub { $screen->part($limit) });
    $screen->table($result);
    $screen->verdict($result);
    return $result->{verdict};
}

sub second_act {
    my ($seconds) = @_;
    my $act = Fleet::Second->new($fleet, seconds => $seconds);
    $screen->say(Fleet::Tables::fair_intro($act));
    $screen->page($fleet);
    my @fair = $act->fairness(sub { $screen->part(Fleet::Second::LIMIT) });
    $screen->say('', Fleet::Tables::fair(@fair),
        Fleet::Tables::fair_verdict(@fair));

    $screen->say(Fleet::Tables::knee_intro($act));
    my @knee = map { $act->fixed($_, $screen->part($_)) } $act->fixed_limits;
    push @knee, $act->auto($screen->part);
    $screen->say('', Fleet::Tables::knee(@knee));
    $fleet->expect_settled(Fleet::Second::names());
    my $verdict = Fleet::Second::verdict(\@fair, \@knee);
    $screen->say('') if $screen->judged('The second act', ' the shares',
        $verdict, 'the limits held');
    return $verdict;
}

sub third_act {
    my ($seconds) = @_;
    my $act = Fleet::Third->new($fleet, seconds => $seconds);
    $screen->say(Fleet::Tables::servers_intro($act));
    $act->start;
    my @part = map {
        $act->part($_, $screen->servers(sub { $act->running }))
    } $act->names;
    $screen->say('', Fleet::Tables::servers(@part));
    my $verdict = Fleet::Third::verdict(@part);
    $screen->third($verdict);
    return $verdict;
}

# Semaphores whose permits did not come back after the last response.
sub leaked {
    poll(sub {
        $fleet->look;
        my @left = $fleet->unsettled or return 1;
        $screen->settling(@left);
        return;
    }, 2 * Fleet::SETTLED);
    $screen->end_live;
    return ($fleet->leaked, $fleet->unsettled);
}

# Runs until Ctrl-C. The backend's log is reset, or it would grow with every
# request.
sub play {
    my ($status) = @_;
    local $SIG{INT} = sub { $screen->end_live; exit $status };
    my ($backend, $limit) = ($fleet->backend, $fleet->semaphore->{limit});
    $screen->playground($fleet);
    while (1) {
        my $now = $backend->now;
        $backend->reset if !$now && $backend->served > 10_000;
        $screen->playing($now, scalar $fleet->waiting('reports'), $limit);
        select undef, undef, undef, 0.2;
    }
}

sub interrupted {
    my ($signal) = @_;
    $screen->end_live if $screen;
    exit 128 + { INT => 2, TERM => 15, HUP => 1 }->{$signal};
}
