#!/usr/bin/perl

# State of another layout: left alone while its wall clock moves, replaced a
# lease and a heartbeat after that.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $redis = $scripts->redis;
my $key = $scripts->state->key;
my $wall = $scripts->wall;

# a later layout, the one before, and the first one
my %state = (
    later => sub { ('.', "4 4711 9 $_[0] 0 4711 0 0 0") },
    before => sub { ('.', "2 4711 9 $_[0] 0 4711 1 0 0",
        'one:0:0000000000000001', '1 1 5000 9999999 -') },
    first => sub { (gen => 4711, clock => 9, wall => $_[0], ended => 2) },
);
for my $name (sort keys %state) {
    for my $age (-5000, 0, 5000) {
        $redis->cmd('FLUSHALL');
        $redis->cmd('HSET', $key, $state{$name}->($wall - $age), kept => 1);
        my $before = $scripts->dump;
        my $one = $scripts->session('one');
        is $one->hello->{status}, 'layout', "$name, $age ms: in use";
        $one->{gen} = 4711;
        is $one->beat->{status}, 'resync', "$name: beat refused";
        is $one->declared->{status}, 'resync', "$name: declared refused";
        is $one->declare('api', held => 1)->{status}, 'resync',
            "$name: declare refused";
        is $one->ask('api', 1), 'resync', "$name: ask refused";
        is $one->configure('-')->{status}, 'resync',
            "$name: configure refused";
        is $one->order('api', 5, 1)->{status}, 'resync',
            "$name: order refused";
        is $one->bye->{status}, 'ok', "$name: bye has no effect";
        is $scripts->dump, $before, "$name: nothing written";
    }
    $redis->cmd('FLUSHALL');
    $redis->cmd('HSET', $key, $state{$name}->($wall - 7500), kept => 1);
    my $one = $scripts->session('one');
    is $one->hello(gen => 0)->{status}, 'ok', "$name: replaced";
    $one->declared;
    is $redis->cmd('HGET', $key, 'kept'), undef, "$name: nothing left";
    is $redis->cmd('HGET', $key, 'gen'), undef, "$name: no field left";
    is $one->ask('api', 1), 'granted', "$name: permits granted";
}

# no layout at all
$redis->cmd('FLUSHALL');
$redis->cmd('HSET', $key, '.', 'x');
is $scripts->session('one')->hello(gen => 0)->{status}, 'ok',
    'unreadable head replaced';

# a semaphore of the first edition that is left over is not counted
$redis->cmd('FLUSHALL');
my $one = $scripts->session('one')->enter;
for my $queue (0, 1) {
    my $name = $queue ? 'queued' : 'quiet';
    $redis->cmd('HSET', $scripts->state->semaphore_key($name), held => 3,
        waiting => 0, limit => 3, 'old:0:1' => '1 3 0 1');
    $one->sync($name, limit => 1, ask => [ [1], $queue ? [2] : () ]);
    is $scripts->state->counts($name), "1 $queue", "$name: counts of its own";
    is_deeply [ keys %{ $scripts->state->accounts($name) } ], [ $one->name ],
        "$name: accounts of its own";
}
