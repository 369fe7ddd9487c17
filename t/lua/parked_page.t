#!/usr/bin/perl

# A worker with parked tickets has ended, and so many others hold permits of the
# semaphore that one page of its accounts takes all steps of a call: each call
# takes out some of the tickets, and then there is nothing left to do.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my @others = map { $scripts->session("other$_")->enter } 1 .. 70;
my $one = $scripts->session('one')->enter;
my $silent = $scripts->session('silent')->enter;
my %arg = (limit => 71);

$_->ask('api', 1, %arg) for @others, $one;
$silent->sync('api', %arg, ask => [ map { [$_, 1, 0, 99] } 1 .. 8 ]);
$scripts->pass(3000, $one, @others);
$one->ask('api', 2, %arg, queue => 99);
$one->sync_all('api', 5, %arg, release => 1);
is $state->figure('api', 'parked'), 8, 'all parked';
$one->bye($silent);

# the log of ended sessions does not go back far enough: all accounts are read
$state->set_figure('api', seen => $state->shard('ended') + 1);
my $calls = 1;
$calls++ while $one->sync('api', %arg)->{more} && $calls < 30;
cmp_ok $calls, '<', 30, 'an end';
is_deeply [ $scripts->queue('api') ], [], 'all removed';
is $state->counts('api'), '71 0', 'none counted';

$scripts->done;
