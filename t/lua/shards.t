#!/usr/bin/perl

# A prefix that is used with another number of shards: hello fails, names a node,
# and writes nothing. When no session is left, or the clock has not moved for a
# lease and a heartbeat, the state is replaced, but for the orders.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;

sub refused {
    my ($session, $shards) = @_;
    my $before = $scripts->dump;
    is eval { $session->hello(shards => $shards, gen => 0); 1 }, undef,
        "$shards shards: refused";
    my $error = $@;
    is $scripts->dump, $before, "$shards shards: nothing written";
    return $error;
}

my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two');
like refused($two, 4),
    qr/WRONGMODE\ node\ one\ uses\ this\ prefix\ without\ "mode=cluster",
        \ this\ node\ with\ it/x, 'node named';

$scripts->redis->cmd('ZADD', $state->key('sessions'), 2 ** 53, 'foreign');
$state->set_shard(sessions => 2);
like refused($two, 4), qr/WRONGMODE node - uses this prefix/, 'no node to name';
my $three = $scripts->session('three')->enter;
is $three->hello->{status}, 'ok', 'no message for it';
$scripts->redis->cmd('ZREM', $state->key('sessions'), 'foreign');
$state->set_shard(sessions => 2);
$three->bye;

$scripts->order('api', 7, 0);
$one->bye;
is $two->hello(shards => 4, gen => 0)->{status}, 'ok', 'replaced without sessions';
is $two->declared->{status}, 'ok', 'session declared';
is $state->ordered('api'), '7 0', 'order kept';
like refused($scripts->session('three'), 1),
    qr/node two uses this prefix with "mode=cluster", this node without it/,
    'the other way';

$state->set_shard(wall => $scripts->wall - 7500);
is $scripts->session('three')->hello(gen => 0)->{status}, 'ok',
    'replaced when not in use';
is $state->session_count, 1, 'without the other session';

# a state of an earlier version, or a field that was deleted
$scripts->redis->cmd('HDEL', $state->key, 'shards');
is $scripts->session('four')->hello->{status}, 'ok', 'unknown number accepted';
is $scripts->redis->cmd('HGET', $state->key, 'shards'), 1, 'and kept';
