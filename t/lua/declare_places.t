#!/usr/bin/perl

# A ticket keeps its place through a reconnect: the declared place, or the
# place of its old epoch in the queue. A ticket without either is reported in
# the reply.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1);
$one->ask('api', 2);
my $place = $one->{asked}{asked}{2}{place};
$two->ask('api', 3);
$one->ask('api', 4);
my $unknown = $one->{asked}{asked}{4}{place};
$two->ask('api', 5);

$one->hello;
my @tickets = ([ 2, 1, $place ], [ 4, 1, 0 ], [ 6, 1, 0 ]);
my $reply = $one->declare('api', held => 1, tickets => \@tickets);
is_deeply $reply->{places}, [ $place, $unknown, 0 ], 'places reported';
is_deeply $one->declare('api', held => 1, tickets => \@tickets)->{places},
    [ $place, $unknown, 0 ], 'places reported again';
$one->declared;
is_deeply $one->sync('api')->{account}, [ 1, 2 ], 'unknown ticket not counted';

my @order = map { (split)[2] } $scripts->queue('api');
is_deeply \@order, [ 2, 3, 4, 5 ], 'order kept';

$one->sync('api', release => 1);
is_deeply $one->sync('api', check => [ [2], [4] ])->{checked},
    { 2 => 0, 4 => 1 }, 'head served after reconnect';

# the place of the epoch of the ask, not only of the last epoch
$one->hello;
$one->hello;
$reply = $one->declare('api', held => 1,
    tickets => [ [ 4, 1, 0, $one->epoch - 2 ] ]);
is_deeply $reply->{places}, [$unknown], 'place of an older epoch';

# a ticket of a later epoch was that of a session that was removed
is_deeply $one->declare('api', held => 1,
    tickets => [ [ 4, 1, 0, $one->epoch + 2 ] ])->{places}, [0],
    'no place of a later epoch';
$one->declare('api', held => 1, tickets => [ [ 4, 1, $unknown ] ]);

# all state is lost: declared places stay, new tickets come behind them
$scripts->redis->cmd('FLUSHALL');
$one->hello(fresh => 5);
$two->hello(fresh => 6);
$two->declare('api', tickets => [ [ 5, 1, $unknown + 1 ] ]);
$one->declare('api', held => 1, tickets => [ [ 4, 1, $unknown ] ]);
$one->declared;
$two->declared;
$scripts->pass(5000, $one, $two);
$one->ask('api', 7);
cmp_ok $one->{asked}{asked}{7}{place}, '>', $unknown + 1, 'new tickets behind';
@order = map { (split)[2] } $scripts->queue('api');
is_deeply \@order, [ 4, 5, 7 ], 'places kept';
