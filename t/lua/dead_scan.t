#!/usr/bin/perl

# The log of the ended tells nothing after a loss of the shard's head: all accounts
# are looked at, some per call. Dead tickets do not break that off.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $dead = 1000;

for my $how (qw(order sync)) {
    my @gone = map { $scripts->session("gone$_")->enter } 1 .. 100;
    $one->ask($how, 1, limit => 9);
    $state->set_account($how, sprintf('dead:0:%x', $_), 1, 1, 0) for 1 .. $dead;
    $state->set_figure($how, held => $dead + 1);
    $_->sync($how, fair => 1, limit => 9,
        ask => [ map { [ $_, 1, 0, 1000, 1000, 'noisy' ] } 1 .. 5 ]) for @gone;
    $one->bye($_) for @gone;
    # as of another head
    $state->set_figure($how, seen => $scripts->meta('ended') + 1);

    $one->order($how, '=', '=') if $how eq 'order';
    $one->sync_all($how, 200, limit => 9, fair => 1);
    is $state->held($how), 1, "$how: no permit of a dead session left";
    is $scripts->queue($how), 0, "$how: no dead ticket left";
}

$scripts->done;
