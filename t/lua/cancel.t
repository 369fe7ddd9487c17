#!/usr/bin/perl

# A cancel in time removes the ticket. A late cancel is reported as such, and
# the permit stays with the account until it is released.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', $_) for 1 .. 4;
my $reply = $one->sync('api', cancel => [ [3], [1], [9] ]);
is_deeply $reply->{cancelled}, { 3 => 1, 1 => 0, 9 => 0 }, 'in time, too late';
is_deeply $reply->{account}, [ 1, 2 ], 'account follows';
is $reply->{waiting}, 2, 'sum follows';
is $one->sync('api', cancel => [ [3] ])->{cancelled}{3}, 0,
    'second cancel ignored';

# cancels come before the grants of released permits
$reply = $one->sync('api', release => 1, cancel => [ [2] ]);
is $reply->{cancelled}{2}, 1, 'cancel before grant';
is_deeply $reply->{granted}, [4], 'next one served';

# only the session's own tickets of this epoch
$one->ask('api', 5);
is $two->sync('api', cancel => [ [5] ])->{cancelled}{5}, 0,
    "other session's ticket kept";
is $one->sync('api', cancel => [ [ 5, 2 ] ])->{cancelled}{5}, 0,
    'other weight ignored';
is $one->sync('api')->{waiting}, 1, 'ticket still waiting';
