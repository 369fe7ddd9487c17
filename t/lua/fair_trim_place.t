#!/usr/bin/perl

# The keys that are remembered are bounded by what waits, whatever the places of
# the tickets: those of a key that always waits are at one distance.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $ticket = 0;

sub ask {
    my ($key) = @_;
    $one->ask('api', ++$ticket, queue => 1000, key => $key, cost => 10_000);
    return $one->{asked}{asked}{$ticket}{place};
}

ask('x');
$state->set_figure('api', seq => 1_600_000);
is ask('a') % 16, 1, 'first place';
ask('a') for 1, 2;
my %rest;
for my $n (1 .. 1100) {
    for my $key ('a', 'a', "new$n") {
        $rest{ ask($key) % 16 }++;
        $one->sync('api', release => 1, fair => 1);
    }
}
is_deeply [ keys %rest ], [1], 'one remainder';
is $state->waiting('api'), 3, 'waiting';
cmp_ok $scripts->redis->cmd('ZCARD', $state->fair_key('api')), '<', 1060,
    'keys';
