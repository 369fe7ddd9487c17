#!/usr/bin/perl

# Tickets with keys in states that are not usual: keys lost or of another type,
# parked tickets, dead sessions, commands that do not fit, the end of a class.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my ($one, $two);

sub begin {
    $redis->cmd('FLUSHALL');
    ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
    $one->ask('api', 1, key => 'x');
    $one->ask('api', $_, key => 'a') for 2, 3;
    $two->ask('api', $_, key => 'b') for 4, 5;
    return 1;
}

sub tickets { return join ' ', map { (split)[2] } $scripts->queue('api') }
sub status { return $_[0]->sync('api', fair => 1, @_[1 .. $#_])->{status} }

# the queue is lost, or has another type: a release, an acquire, a full queue
for my $how (qw/lost other/) {
    my $status = $how eq 'lost' ? 'resync' : 'broken';
    for ([ release => 1 ], [ release => 1, ask => [ [ 6, 1, 0, 9, 9, 'a' ] ] ],
        [ ask => [ [ 6, 1, 0, 9, 9, 'a' ] ] ],
        [ ask => [ [ 6, 1, 0, 4, 9, 'c' ] ] ],
        [ ask => [ [ 6, 1, 0, 5, 9, 'a' ], [ 7, 1, 0, 5, 9, 'c' ] ] ])
    {
        begin();
        $state->delete_queue('api');
        $redis->cmd('SET', $state->queue_key('api'), 'x') if $how eq 'other';
        is status($one, @$_), $status, "queue $how: $status";
    }
}

# without its last member: the marker alone is no head
begin();
$redis->cmd('ZREM', $state->queue_key('api'), @{ $redis->cmd('ZRANGE',
    $state->queue_key('api'), 1, -1) });
is status($one, release => 1), 'ok', 'empty queue with its marker';

# declare
begin();
$redis->cmd('SET', $state->fair_key('api'), 'x');
$two->hello;
is $two->declare('api', tickets => [ [ 4, 1, 9, undef, 9, 'b' ] ])->{status},
    'broken', 'declare: other type';
begin();
my ($tags, $before) = $state->tags('api');
my %place = %{ $state->places('api') };
$two->hello;
$two->declare('api', tickets => [ map { [ $_, 1,
    $place{ $two->name . " 1 $_ 1 b" }, 1, 1000, 'b' ] } 4, 5 ]);
$two->declared;
my $virtual;
($tags, $virtual) = $state->tags('api');
is $virtual, $before, 'declare beside others: V stays';
$two->ask('api', 6, key => 'c');
is $two->declare('api', more => 1, limit => 1, fair => 1, tickets => [
    [ 7, 1, 0 ] ])->{places}[0], 0, 'declare: no ticket with a key';
begin();
$two->hello;
$one->hello;
$redis->cmd('DEL', $state->semaphore_keys('api'));
is $two->declare('api', limit => 3, tickets => [ [ 4, 1, 50, 1, 1000, 'b' ],
    [ 5, 1, 20, 1, 10, 'b' ] ])->{status}, 'ok', 'declare: semaphore begins';
($tags, $virtual) = $state->tags('api');
is_deeply [ $tags->{b}, $virtual ], [ 2716, 20 ], 'lowest tag, highest F';

# several keys and classes in one call
begin();
my $reply = $one->sync('api', ask => [ [ 6, 1, 0, 99, 9, 'd' ],
    [ 7, 1, 0, 99, 9, 'd' ], [ 8, 1, 1, 99, 9, 'd' ], [ 9, 1, 1, 99 ] ]);
is tickets(), '2 4 6 7 3 5 8 9', 'several in one call';
is $one->sync('api', release => 1, ask => [ [ 10, 1, 0, 99 ] ], fair => 1)
    ->{asked}{10}{verdict}, 'queued', 'one without a key by the same session';

# the limit is lowered below what is held; more is released than held
begin();
is status($one, release => 9), 'resync', 'too many released';
begin();
$one->sync('api', limit => 3, release => 0, fair => 1,
    ask => [ [ 6, 1, 0, 9, 9, 'e' ] ]);
is $one->sync('api', limit => 1, ask => [ [ 7, 1, 0, 9, 9, 'e' ] ])->{in_use},
    3, 'more held than the limit';

# a parked ticket is cancelled, a dead one is dropped
begin();
$scripts->advance(2500);
$one->beat;
$one->sync('api', release => 1, fair => 1) for 1 .. 3;
is $state->figure('api', 'parked'), 2, 'tickets of a silent session parked';
$one->ask('api', 8, key => 'a');
is $one->ask('api', 6, queue => 2, key => 'a'), 'refused',
    'parked ones are not dropped';
begin();
$two->sync('api', ask => [ map { [ $_, 1, 0, 999, 1000, 'b' ] } 10 .. 150 ]);
$two->bye;
$one->ask('api', 6, queue => 3, key => 'a');
is $one->ask('api', 7, queue => 3, key => 'c'), 'refused',
    'too many dead ones to drop';
is $one->ask('api', 7, queue => 3, key => 'c'), 'queued', 'dropped by some';
is tickets(), '2 4 7 3 5', 'with the last one that is alive';
$one->sync('api', release => 1, fair => 1) for 1 .. 4;
is $state->waiting('api'), 0, 'all served';

# one of many parked tickets is cancelled before it is restored
begin();
$two->sync('api', ask => [ map { [ $_, 1, 0, 999, 1000, 'b' ] } 10 .. 200 ]);
$scripts->advance(2500);
$one->beat;
$one->sync('api', release => $_ < 4 ? 1 : 0, fair => 1) for 1 .. 8;
my $parked = $state->figure('api', 'parked');
cmp_ok $parked, '>', 180, "parked ($parked)";
is $two->sync('api', cancel => [ [ 10, 1, 1000, 'b' ] ])->{cancelled}{10}, 1,
    'one cancelled';

# tags of some keys are lost, or of all
begin();
$redis->cmd('ZREM', $state->fair_key('api'), '0 a', '0 b');
is $one->ask('api', 6, queue => 4, key => 'c'), 'queued', 'one key: dropped';
$two->sync('api', cancel => [ [ 4, 1, 1000, 'b' ] ]);
is_deeply [ keys %{ ($state->tags('api'))[0] } ], ['c'], 'nothing given back';
begin();
$state->delete_tags('api');
is_deeply $two->sync('api', cancel => [ [ 5, 1, 1000, 'b' ] ])->{cancelled},
    { 5 => 1 }, 'all keys: cancelled';
begin();
$one->sync('api', cancel => [ [ 2, 1, 1000, 'a' ] ]);
$redis->cmd('SET', $state->queue_key('api'), 'x');
is $one->ask('api', 6, key => 'a'), 'broken', 'credit: queue of another type';

# tickets without keys in calls that may have some
$redis->cmd('FLUSHALL');
($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
is $one->ask('none', 1, weight => 2, key => 'a'), 'refused', 'too heavy';
$one->ask('api', $_, class => 1) for 1 .. 3;
is_deeply $one->sync('api', release => 1, fair => 1)->{granted}, [2],
    'no key waits';
$two->ask('api', 4, key => 'a');
is_deeply $one->sync('api', release => 1, fair => 1)->{granted}, [],
    'better class';
is_deeply [ $two->sync('api', release => 1, fair => 1)->{waiting} ], [0],
    'and the other one, without a V';

# no queue, on the rest
begin();
$scripts->order('api', 1);
is $one->ask('api', 6, queue => 0, key => 'c'), 'refused', 'no queue';

# the end of a class: the last place, where the order ends
begin();
$state->set_figure('api', seq => 1e13 - 3);
$state->delete_tags('api');
is $one->ask('api', 5 + $_, key => 'e', queue => 99), 'queued', 'last places'
    for 1 .. 5;
is $one->{asked}{asked}{10}{place}, 1e13 - 1, 'not in the next class';
is $one->ask('api', 11, key => 'f', class => 1), 'queued', 'next class';
is((split ' ', ($scripts->queue('api'))[-1])[2], 11, 'is behind');

# an acquire of the wrong form on the shortcut
begin();
ok !eval { $one->sync('api', ask => [ [ 6, 1, 0, 9, 0, 'a' ] ]); 1 },
    'no cost refused';
