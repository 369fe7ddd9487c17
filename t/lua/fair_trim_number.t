#!/usr/bin/perl

# The keys that are remembered are bounded by what waits, whatever the numbers
# of the tickets: a worker numbers those of all its semaphores in turn.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $ticket = 1;

sub ask {
    $ticket += 16;
    return $one->ask('api', $ticket, queue => 1000, key => "k$ticket");
}

ask() for 0 .. 5;
for (1 .. 1100) {
    ask();
    $one->sync('api', release => 1, fair => 1);
}
is $scripts->state->waiting('api'), 5, 'waiting';
cmp_ok $scripts->redis->cmd('ZCARD', $scripts->state->fair_key('api')), '<',
    1060, 'keys';
