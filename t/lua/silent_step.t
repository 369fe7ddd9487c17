#!/usr/bin/perl

# The clock of Redis's host steps forward by more than two heartbeats: no
# session is silent because of that. Tickets are served in their order, and an
# operator is refused to remove a live session. A session that is dead is
# silent two heartbeats later.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new(undef, lease => 60_000);
my $state = $scripts->state;
my ($one, $two, $dead) = map { $scripts->session($_)->enter->listen }
    qw(one two dead);

$two->ask('api', 1);
$one->ask('api', 2);
$dead->ask('api', 3);
$two->ask('api', 4);

# the stored wall clock is moved the other way
$state->step_wall(-10_000);
is $two->beat->{silent}, 0, 'first after the step: not silent';
is $two->bye($one, 1)->{removed}, 2, 'a live session stays';
$two->sync('api', release => 1);
is_deeply [ grep { /grant/ } $one->messages ], ['grant api 1 1 1 2'],
    'head served';
is $state->figure('api', 'parked'), 0, 'no ticket parked';
is $one->beat->{silent}, 0, 'nor is another one';

# a heartbeat late, and one more
$scripts->pass(2000, $one, $two);
is $two->bye($dead, 1)->{removed}, 2, 'after two heartbeats: not yet silent';
$scripts->pass(1000, $one, $two);
$one->sync('api', release => 1);
is_deeply [ grep { /grant/ } $two->messages ], ['grant api 1 1 1 4'],
    'after three: stepped over';
is_deeply [ grep { /grant/ } $dead->messages ], [], 'and granted nothing';
is $two->bye($dead, 1)->{removed}, 1, 'and removed';

# where a worker is alone, its heartbeats are no leaps
my $alone = $scripts->session('alone')->enter;
$_->bye($_) for $one, $two;
my $gone = $scripts->session('gone')->enter;
for (1 .. 3) {
    $state->step_wall(-1050);
    $alone->beat;
}
is $alone->bye($gone, 1)->{removed}, 1, 'silent beside one worker';
