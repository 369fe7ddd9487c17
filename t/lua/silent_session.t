#!/usr/bin/perl

# A ticket of a session that is silent for two heartbeats is stepped over, and
# hides no ticket behind it. It is parked until the next sync of its session,
# which restores its place.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;

sub order_of { return map { (split)[2] } $scripts->queue('api') }

$two->ask('api', 1);
$one->ask('api', $_) for 2 .. 4;
$two->ask('api', $_) for 6, 7;
my %place = %{ $state->places('api') };

$scripts->pass(1000, $two);
$two->sync('api', release => 1);
is_deeply [ $one->messages ], ['grant api 1 1 1 2'], 'not yet silent';
$one->sync('api', release => 1);
is_deeply [ $one->messages ], [], 'own tickets in reply';

# ticket 3 is served: one permit, held by a session that is silent from now on
$scripts->pass(2500, $two);
$scripts->order('api', 2);
is_deeply $two->sync('api')->{granted}, [6], 'silent ticket stepped over';
is_deeply [ $one->messages ], [], 'silent session granted nothing';
is_deeply [ order_of() ], [ 7, 4 ], 'silent ticket behind all others';
is $state->figure('api', 'parked'), 1, 'ticket parked';

# a queue full of such tickets does not refuse an ask beside a free permit
$two->sync('api', release => 1, cancel => [ [7] ]);
$two->sync('api', release => 1);
is $two->ask('api', 8, queue => 1), 'granted', 'granted beyond the queue';
is $two->ask('api', 9, queue => 1), 'refused', 'queue bound kept otherwise';
is $two->sync('api')->{waiting}, 1, 'rejected ask not counted';
is $two->ask('api', 10), 'queued', 'ticket behind';

is $one->beat->{silent}, 1, 'silence in the reply';
is $one->beat->{silent}, 0, 'silent no more';
is $one->sync('api', check => [ [4] ])->{checked}{4}, 1, 'silent one returns';
is_deeply [ order_of() ], [ 4, 10 ], 'place restored';
is $state->places('api')->{ $one->name . ' 1 4 1' },
    $place{ $one->name . ' 1 4 1' }, 'the same place';
$one->messages;
$two->sync('api', release => 1);
is_deeply [ $one->messages ], ['grant api 1 2 2 4'], 'served first';
