#!/usr/bin/perl

# A check returns the state of a ticket: 1 in the queue, 0 not there, 2
# removed, because it is heavier than a lowered limit.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$two->ask('api', 1, limit => 3, weight => 3);
$one->ask('api', 2, limit => 3, weight => 2);
$one->ask('api', 3, limit => 3, weight => 1);
my $reply = $one->sync('api', check => [ [ 2, 2 ], [3], [4] ]);
is_deeply $reply->{checked}, { 2 => 1, 3 => 1, 4 => 0 },
    'waiting and unknown tickets';
is_deeply $reply->{account}, [ 0, 2 ], 'account reported';

$two->sync('api', release => 2);
$reply = $one->sync('api', check => [ [ 2, 2 ], [3] ]);
is_deeply $reply->{checked}, { 2 => 0, 3 => 1 }, 'granted ticket not queued';
is_deeply $reply->{account}, [ 2, 1 ], 'weights add up';

# granted by this very call
$two->sync('api', release => 1, limit => 3);
$one->ask('api', 5, limit => 3);
$reply = $one->sync('api', release => 1, check => [ [5] ]);
is_deeply $reply->{checked}, { 5 => 0 }, 'ticket granted at check';
is_deeply $reply->{granted}, [5], 'session notified';

# a lowered limit
$one->ask('api', 6, limit => 3, weight => 2);
$one->ask('api', 7, limit => 3, weight => 1);
$scripts->order('api', 1);
$reply = $one->sync('api', check => [ [ 6, 2 ], [7] ]);
is_deeply $reply->{checked}, { 6 => 2, 7 => 1 }, 'heavy ticket removed';
is_deeply $reply->{account}, [ 3, 1 ], 'account follows';
is $reply->{waiting}, 1, 'sum follows';
is $one->sync('api', check => [ [ 6, 2 ] ])->{checked}{6}, 0,
    'removed only once';
