#!/usr/bin/perl

# The wall clock of the host steps by more than a day: no lease ends, and no
# semaphore in use expires.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $day = 25 * 3600 * 1000;

$one->ask('api', 1);
$two->ask('api', 2);
my @keys = $state->semaphore_keys('api');
cmp_ok $scripts->redis->cmd('PTTL', $_), '>', 2 * $day, 'long expiry' for @keys;

# the stored wall clock is moved the other way
for my $step (-$day, $day) {
    my $name = $step < 0 ? 'forward' : 'back';
    my $clock = $scripts->meta('clock');
    $state->step_wall($step);
    is $one->beat->{removed}, 0, "$name: none removed";
    is $two->beat->{removed}, 0, "$name: other one lives";
    cmp_ok $scripts->meta('clock') - $clock, '<=', 1250,
        "$name: a quarter of a lease at most";
    is $state->counts('api'), '1 1', "$name: counts kept";
    is $state->exists('api'), 2, "$name: keys kept";
    $scripts->pass(1300, $one, $two);
    is $two->sync('api', check => [ [2] ])->{checked}{2}, 1, "$name: queued";
    is $one->beat->{status}, 'ok', "$name: session kept";
}
$one->sync('api', release => 1);
is_deeply $two->sync('api')->{account}, [ 1, 0 ], 'served as usual';
