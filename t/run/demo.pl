#!/usr/bin/perl

# make demo: the fleet of compose.yaml without containers: three nginx nodes,
# Redis (Valkey where it is installed), a backend with a knee, Prometheus, and
# Grafana where it is installed. Prints their addresses, then plays scenes
# (Fleet::Scene). On a terminal scenes are chosen until Ctrl-C.
#
#   demo.pl [--port=8080] [--seconds=10] [--scene=burst,tenant,redis]
#
# PORT and SCENE in the environment are the same as --port and --scene. Without a
# terminal the given scenes are played, or all of them.
#
# Exit status: 0 the limit held and every request was answered or rejected, 1
# otherwise; 2 the fleet could not be started.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Getopt::Long qw(GetOptions);

use Fleet::Ports;
use Fleet::Scene;
use Fleet::Screen;
use Fleet::Stack;

my ($fleet, $screen);

$SIG{PIPE} = 'IGNORE';
$SIG{$_} = \&interrupted for qw(INT TERM HUP);

exit main();
END { Fleet::end() }

sub main {
    my %opt = options();
    $screen = Fleet::Screen->new;
    $fleet = Fleet::Stack->new(port => $opt{port});
    my $trouble = Fleet::Ports::unusable('demo', $fleet->ports);
    refuse($trouble) if $trouble;
    eval {
        $screen->during('Starting the fleet.', sub { $fleet->start });
        1;
    } or refuse("the fleet did not start: $@");
    $screen->say(addresses());
    my $scene = Fleet::Scene->new(
        dir => $fleet->dir, seconds => $opt{seconds}, screen => $screen,
        nodes => [ map { '127.0.0.1:' . $fleet->port_of($_) } $fleet->names ],
        restart => sub { $fleet->restart_redis });
    my $status = 0;
    for my $name (@{ $opt{scene} }) {
        $status = 1 unless played($scene, $name);
    }
    choose($scene) if $screen->tty;
    return $status;
}

sub options {
    my %opt = (port => $ENV{PORT} || 8080, seconds => 10,
        scene => $ENV{SCENE} || '');
    GetOptions(\%opt, 'port=s', 'seconds=f', 'scene=s') && !@ARGV
        or refuse('the options are --port=number, --seconds=number and '
            . '--scene=names');
    refuse("PORT must be a number from 1 to 65520, not \"$opt{port}\"")
        if $opt{port} !~ /^\d{1,5}$/ || $opt{port} < 1
        || $opt{port} > 65520;
    refuse('--seconds must be at least 0.5') if $opt{seconds} < 0.5;
    my @names = Fleet::Scene->names;
    my @wanted = split /[,\s]+/, $opt{scene};
    for my $name (@wanted) {
        refuse("SCENE must be of @names, not \"$name\"")
            unless grep { $_ eq $name } @names;
    }
    $opt{scene} = @wanted || -t STDOUT ? \@wanted : \@names;
    return %opt;
}

sub refuse {
    my ($sentence) = @_;
    chomp $sentence;
    print STDERR "make demo: $sentence\n";
    exit 2;
}

sub addresses {
    my $grafana = $fleet->grafana;
    return ('Three nodes with one limit, all on this machine:', '',
        map({ sprintf '  node %s      %s', $_, $fleet->page($_) }
            $fleet->names),
        '  backend     http://' . $fleet->backend->address,
        '  Prometheus  ' . $fleet->prometheus . '/alerts',
        '  Grafana     ' . ($grafana ? "$grafana/d/dsem"
            : 'not installed (Debian has no package): import '
                . 'monitoring/dsem.json'));
}

# Whether the limit held, and every request had an answer.
sub played {
    my ($scene, $name) = @_;
    $fleet->backend->reset;
    my $result = $scene->run($name);
    my @wrong = grep { !/^(?:200|503)$/ } sort keys %{ $result->{status} };
    $screen->say("Some requests ended with @wrong.") if @wrong;
    my $ok = !@wrong;
    for my $semaphore (qw(reports shares)) {
        my $peak = $fleet->backend->peak($semaphore) or next;
        $screen->say("  peak of $semaphore at the backend: $peak of 10");
        $ok = 0 if $peak > 10;
    }
    return $ok;
}

# Until Ctrl-C, or the end of the input.
sub choose {
    my ($scene) = @_;
    my @names = $scene->names;
    local $SIG{INT} = sub { $screen->say(''); exit 0 };
    while (1) {
        $screen->say('', map({ sprintf '  %d  %-7s %s', $_ + 1, $names[$_],
            $scene->title($names[$_]) } 0 .. $#names),
            'A number and Enter plays a scene, Ctrl-C ends.');
        my $line = <STDIN> // return;
        played($scene, $names[$1 - 1]) if $line =~ /^\s*([1-3])\s*$/;
    }
}

sub interrupted {
    my ($signal) = @_;
    $screen->end_live if $screen;
    exit 128 + { INT => 2, TERM => 15, HUP => 1 }->{$signal};
}
