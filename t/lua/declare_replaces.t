#!/usr/bin/perl

# A declare replaces the account of the session with absolute figures. A
# repeated declare changes nothing.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', $_, limit => 3) for 1 .. 4;
$two->ask('api', 1, limit => 3);
is $two->sync('api')->{in_use}, 3, 'three in use';
is $two->sync('api')->{waiting}, 2, 'two waiting';

$one->hello;
is $one->declare('api', held => 1)->{status}, 'ok', 'declare accepted';
$one->declared;
my $reply = $one->sync('api');
is_deeply $reply->{account}, [ 1, 0 ], 'account replaced';
is $reply->{in_use}, 2, 'sum follows';
is $reply->{waiting}, 0, 'other session served';
is_deeply [ $scripts->queue('api') ], [], 'old ticket removed';

# more than the limit: accepted, and nothing is granted
$one->hello;
$one->declare('api', held => 5);
$one->declare('api', held => 5);
$one->declared;
$reply = $one->sync('api');
is $reply->{in_use}, 6, 'overage counted once';
is $reply->{limit}, 3, 'stored limit kept';
is $one->declare('api', held => 5)->{over}, 3, 'overage told';
is $two->ask('api', 2, limit => 3), 'queued', 'no grant above the limit';
is $one->sync('api', release => 3)->{in_use}, 3, 'no grant at the limit';
is $one->sync('api', release => 1)->{waiting}, 0, 'served below the limit';

# in parts
$one->ask('parts', $_, limit => 2) for 1 .. 4;
my @places = map { $_->[1] } sort { $a->[0] <=> $b->[0] } map { [
    (split)[2], $scripts->state->places('parts')->{$_} ] }
    $scripts->queue('parts');
$one->hello;
$one->declare('parts', held => 2, tickets => [ [ 3, 1, $places[0] ] ]);
$one->declare('parts', held => 2, more => 1, tickets => [ [ 4, 1,
    $places[1] ] ]);
$one->declared;
is_deeply $one->sync('parts')->{account}, [ 2, 2 ], 'parts add up';

# the limit is stored only where none is stored
$one->declare('new', held => 1, limit => 7);
$two->declare('new', held => 1, limit => 8);
is $one->sync('new', limit => 9)->{limit}, 7, 'first limit kept';

# an account in two parts
$one->hello;
$one->declare('parts', held => 2, limit => 1, tickets => [ [ 1, 1, 11 ] ]);
$reply = $one->declare('parts', more => 1, tickets => [ [ 2, 1, 12 ] ]);
is_deeply $reply->{places}, [12], 'second part declared';
my $account = $scripts->state->account('parts', $one->name);
is_deeply [ @$account{qw/held waiting/} ], [ 2, 2 ], 'added to the first one';

# its queue is lost in between
my $state = $scripts->state;
my $gen = $state->shard('gen');
$state->delete_queue('parts');
is $one->declare('parts', more => 1, tickets => [ [ 3, 1, 13 ] ])->{status},
    'resync', 'loss of the first part noticed';
isnt $state->shard('gen'), $gen, 'new generation';
$one->hello;
$one->declare('parts', held => 0);

$one->hello;
$one->declare('new', held => 0);
$two->hello;
$two->declare('new', held => 0);
is $scripts->state->exists('new'), 0, 'nothing left';
