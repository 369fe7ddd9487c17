#!/usr/bin/perl

# The key of a queue is of another type: what a worker holds is declared all the
# same, as nothing waits. Tickets have no place there.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($state, $redis) = ($scripts->state, $scripts->redis);
my $one = $scripts->session('one');

$one->hello;
$redis->cmd('SET', $state->queue_key('api'), 'mine');
is $one->declare('api', limit => 4, held => 3)->{status}, 'ok', 'declared';
is $state->held('api'), 3, 'and counted';
is $one->declare('web', limit => 4, held => 1)->{status}, 'ok', 'another name';

$one->hello;
is $one->declare('api', limit => 4, held => 3, tickets => [[ 7 ]])->{status},
    'broken', 'not with a ticket';
is $redis->cmd('GET', $state->queue_key('api')), 'mine', 'the key is left alone';
$redis->cmd('DEL', $state->queue_key('api'));

$scripts->done;
