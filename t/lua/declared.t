#!/usr/bin/perl

# Accounts and tickets of older epochs are void once a session has sent
# declared.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1);
$one->ask('api', 2);
$one->ask('other', 3);
$two->ask('api', 4);

$one->hello;
is $two->sync('api', check => [ [4] ])->{in_use}, 1, 'no grant before declared';
is $two->sync('api', check => [ [4] ])->{checked}{4}, 1,
    'other session still waits';

my $ended = $scripts->meta('ended');
is $one->declared->{status}, 'ok', 'declared accepted';
is $scripts->meta('ended'), $ended + 1, 'ended counted';
my $reply = $two->sync('api', check => [ [4] ]);
is $reply->{checked}{4}, 0, 'other session served';
is_deeply $reply->{account}, [ 1, 0 ], 'other account counted';
is $reply->{in_use}, 1, 'old permit void';
is $reply->{waiting}, 0, 'old ticket void';
is $two->ask('other', 5), 'granted', 'other semaphore void too';

# an undeclared ticket is met later and not taken for a new one
$one->ask('web', 6, limit => 2);
$one->ask('web', 7, limit => 2);
$one->ask('web', 8, limit => 2);
$one->ask('web', 9, limit => 2);
$one->hello;
$one->declare('web', held => 2, tickets => [ [9], [ 11, 1, 1_000_000_000 ] ]);
$one->declared;
is_deeply [ map { (split)[2] } $scripts->queue('web') ], [ 8, 9, 11 ],
    'old ticket still queued';
$two->ask('web', 10, limit => 2);
$reply = $one->sync('web', release => 1);
is_deeply $reply->{granted}, [9], 'declared session served';
is_deeply $reply->{account}, [ 2, 1 ], 'declared account counted';
is $reply->{waiting}, 2, 'other account counted';
