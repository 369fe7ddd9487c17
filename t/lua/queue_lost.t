#!/usr/bin/perl

# The loss of a queue key is noticed by its missing marker while a ticket
# waits. A new generation makes every session say hello and declare.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1);
is $two->ask('api', 2), 'queued', 'one ticket waiting';
my $place = $two->{asked}{asked}{2}{place};
ok $scripts->state->marked('api'), 'marker first in queue';

my $gen = $scripts->meta('gen');
$scripts->state->delete_queue('api');
my $before = $scripts->state->snapshot('api');
is $one->ask('api', 3), 'resync', 'ask rejected';
isnt $scripts->meta('gen'), $gen, 'new generation';
is_deeply $scripts->state->snapshot('api'), $before, 'semaphore not touched';
is $two->sync('api', check => [ [2] ])->{status}, 'resync', 'waiter rejected';
is $two->ask('else', 4), 'resync', 'other names rejected too';
is $one->beat->{status}, 'resync', 'beat rejected';

cmp_ok $one->hello->{recovery}, '>', 3000, 'recovery begins';
$one->declare('api', held => 1);
$one->declared;
is $one->sync('api')->{status}, 'ok', 'one new generation only';
is $two->hello->{gen}, $one->gen, 'same generation for all';
is_deeply $two->declare('api', tickets => [ [ 2, 1, $place ] ])->{places},
    [$place], 'place kept';
$two->declared;

$scripts->pass(5000, $one, $two);
is $one->ask('api', 5), 'queued', 'new ticket behind';
is $one->sync('api', release => 1)->{waiting}, 1, 'head served';
is_deeply $two->sync('api')->{account}, [ 1, 0 ], 'waiting ticket served';

# its ticket only
$one->ask('ticket', 1);
$two->ask('ticket', 2);
$scripts->redis->cmd('ZREM', $scripts->state->queue_key('ticket'),
    $scripts->queue('ticket'));
is $one->sync('ticket', release => 1)->{status}, 'ok', 'lost ticket not served';
is $two->sync('ticket', check => [ [2] ])->{checked}{2}, 0, 'and not found';

# no waiting ticket: no queue, nothing lost
is $one->sync('api', cancel => [ [5] ])->{waiting}, 0, 'no ticket waiting';
is $two->sync('api')->{status}, 'ok', 'missing empty queue accepted';

# only a dead session had a ticket
my $dead = $scripts->session('dead')->enter;
$dead->ask('api', 6);
$scripts->state->delete_queue('api');
$one->bye($dead);
is $two->sync('api')->{status}, 'ok', 'dead session loses nothing';

# a session that declares its own tickets needs no other queue
$two->ask('api', 7);
$place = $two->{asked}{asked}{7}{place};
$gen = $scripts->meta('gen');
$scripts->state->delete_queue('api');
$two->hello;
is $two->declare('api', held => 1, tickets => [ [ 7, 1, $place ] ])->{status},
    'ok', 'own tickets declared';
$two->declared;
is $scripts->meta('gen'), $gen, 'generation kept';
is $one->sync('api')->{status}, 'ok', 'queue restored';

# another session's declare does not hide the loss
$scripts->state->delete_queue('api');
$one->hello;
is $one->declare('api', held => 1)->{status}, 'resync', 'loss noticed';
isnt $scripts->meta('gen'), $gen, 'new generation';

# whatever the first command is
my %way = (
    check => sub { $two->sync('api', check => [ [2] ]) },
    cancel => sub { $two->sync('api', cancel => [ [2] ]) },
    release => sub { $one->sync('api', release => 1) },
    order => sub { $one->order('api', 5, 0) },
);
for my $what (sort keys %way) {
    $scripts->redis->cmd('FLUSHALL');
    ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;
    $_->ask('api', $_ == $one ? 1 : 2) for $one, $two;
    $scripts->state->delete_queue('api');
    is $way{$what}->()->{status}, 'resync', "loss noticed by a $what";
}
