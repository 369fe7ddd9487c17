#!/usr/bin/perl

# A key of a semaphore is of another type: a command is refused as broken, and
# its reply says which key. To delete another one may exceed the limit.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($state, $redis) = ($scripts->state, $scripts->redis);
my ($one, $two);

# A permit is out, and two tickets with keys wait; then this key is foreign.
sub begin {
    my ($key) = @_;
    $redis->cmd('FLUSHALL');
    ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
    $one->ask('api', 1, key => 'x');
    $one->ask('api', $_, key => 'a') for 2, 3;
    $redis->cmd('DEL', $key);
    $redis->cmd('SET', $key, 'mine');
    return 1;
}

# Which of KEYS the replies name.
sub named {
    my ($name, $number, @replies) = @_;
    is_deeply [ map { [ @$_{qw/status wrong/} ] } @replies ],
        [ map { ['broken', $number] } @replies ], $name;
    return 1;
}

begin($state->semaphore_key('api'));
named('semaphore, by sync', 2, $two->sync('api', ask => [ [ 4 ] ]),
    $two->sync('api', fair => 1, ask => [ [ 5, 1, 0, 9, 9, 'b' ] ]),
    $one->sync('api', release => 1));
named('semaphore, by adjust', 2, $two->adjust('api'));
$two->hello;
named('semaphore, by declare', 2, $two->declare('api', held => 1));

begin($state->queue_key('api'));
named('queue, by sync', 3, $two->sync('api', ask => [ [ 4 ] ]),
    $two->sync('api', fair => 1, ask => [ [ 5, 1, 0, 9, 9, 'b' ] ]),
    $one->sync('api', release => 1),
    $one->sync('api', cancel => [ [ 2, 1, 1000, 'a' ] ]),
    $one->sync('api', ask => [ [ 5, 1, 0, 2, 9, 'b' ] ]));
$one->hello;
named('queue, by declare', 3, $one->declare('api', held => 1,
    tickets => [ [ 2, 1, 9, undef, 9, 'a' ] ]));

# nothing waits at first
$redis->cmd('FLUSHALL');
($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
$one->ask('api', 1);
$redis->cmd('SET', $state->queue_key('api'), 'mine');
named('a new queue, by sync', 3, $two->sync('api', ask => [ [ 4 ] ]),
    $two->sync('api', fair => 1, ask => [ [ 5, 1, 0, 9, 9, 'b' ] ]));

begin($state->fair_key('api'));
named('tags, by sync', 4,
    $two->sync('api', fair => 1, ask => [ [ 5, 1, 0, 9, 9, 'b' ] ]),
    $one->sync('api', cancel => [ [ 2, 1, 1000, 'a' ] ]));
$one->hello;
named('tags, by declare', 4, $one->declare('api', held => 1,
    tickets => [ [ 2, 1, 9, undef, 9, 'a' ] ]));

begin($state->auto_key('api'));
named('what is kept of the rule', 4, $two->adjust('api'));

# a name that is a pool elsewhere has no wrong key
$redis->cmd('FLUSHALL');
$one = $scripts->session('one')->enter;
$one->ask('api', 1);
$redis->cmd('HSET', $state->semaphore_key('api'), '.',
    $redis->cmd('HGET', $state->semaphore_key('api'), '.') . ' /');
is_deeply $one->sync('api', ask => [ [ 2 ] ]), { status => 'mixed' }, 'mixed';

$scripts->done;
