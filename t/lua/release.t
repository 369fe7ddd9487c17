#!/usr/bin/perl

# Released permits go to the head of the queue. Its session is notified by one
# message with all its tickets.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter->listen;
my $three = $scripts->session('three')->enter->listen;
my %arg = (limit => 3);

$one->ask('api', $_, %arg) for 1 .. 3;
$two->ask('api', 21, %arg);
$three->ask('api', 31, %arg);
$two->ask('api', 22, %arg);
$one->ask('api', 4, %arg);
$two->ask('api', 23, %arg);

my $reply = $one->sync('api', release => 3);
is $reply->{in_use}, 3, 'all permits handed over';
is_deeply $reply->{granted}, [], 'no permit for releaser';
is_deeply [ $two->messages ], ['grant api 1 3 3 21 22'],
    'two tickets in one message';
is_deeply [ $three->messages ], ['grant api 1 3 3 31'],
    'one message for other session';
is_deeply [ $one->messages ], [], 'no message for releaser';
is_deeply $two->sync('api')->{account}, [ 2, 1 ], 'other account counted';

$reply = $three->sync('api', release => 1);
is_deeply [ $one->messages ], ['grant api 1 3 3 4'], 'next tickets in order';
is_deeply [ $three->messages ], [], 'releaser not notified';

# the message has the epoch of the ticket
$two->hello;
$two->declare('api', held => 1, tickets => [ [ 23, 1, 0 ] ]);
$two->declared;
$one->sync('api');
is_deeply [ $two->messages ], ['grant api 2 3 3 23'], 'epoch in the message';

# a release without waiting tickets
is $one->sync('api', release => 1)->{in_use}, 2, 'permit free again';
is_deeply [ map { $_->messages } $one, $two, $three ], [],
    'no session notified';
