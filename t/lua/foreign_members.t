#!/usr/bin/perl

# Foreign members of the queue are dropped. They change no count, and the
# marker stays.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $redis = $scripts->redis;
my $key = $scripts->state->queue_key('api');

$one->ask('api', 1);
$one->ask('api', 2);
$one->ask('api', 3);

$redis->cmd('ZADD', $key, $_->[0], $_->[1]) for
    [ 0, '' ], [ 0, 'foreign' ], [ 1, 'a b c d' ], [ 1, 'one:0:1 1 1 1' ],
    [ 1, $one->name . ' 1 99' ], [ 1, $one->name . ' 1 x 1' ],
    [ 1, "\0\xff" ], [ '-inf', 'aaa' ], [ '-inf', 'zzz' ];

my $reply = $one->sync('api', release => 1);
is_deeply $reply->{granted}, [2], 'own ticket served';
is $reply->{waiting}, 1, 'counts unchanged';
is_deeply $reply->{account}, [ 1, 1 ], 'account unchanged';
is $one->sync('api', check => [ [3] ])->{checked}{3}, 1, 'next ticket waits';
ok $scripts->state->marked('api'), 'marker still there';

# the only one before it, which looks like a ticket
$redis->cmd('ZADD', $key, 0, 'gone:0:ff 1 1 1');
is_deeply $one->sync('api', release => 1)->{granted}, [3],
    'ticket behind served';
is $one->sync('api', release => 1)->{in_use}, 0, 'all permits returned';
is $scripts->state->exists('api'), 0, 'no keys left';
