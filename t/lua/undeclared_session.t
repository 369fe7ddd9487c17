#!/usr/bin/perl

# A ticket of a session between hello and declared is stepped over. The next
# sync of the session restores its place.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;

$two->ask('api', 1);
$one->ask('api', 2);
$two->ask('api', 3);

$one->hello;
is_deeply $two->sync('api', release => 1)->{granted}, [3],
    'undeclared ticket stepped over';

# also with the ticket under its new epoch
is $one->declare('api', tickets => [ [2] ])->{status}, 'ok', 'ticket declared';
$two->ask('api', 4);
is_deeply $two->sync('api', release => 1)->{granted}, [4],
    'stepped over until declared';

$one->declared;
$two->ask('api', 5);
is $one->sync('api', check => [ [2] ])->{checked}{2}, 1, 'ticket waits';
$two->sync('api', release => 1);
is_deeply [ $one->messages ], ['grant api 2 1 1 2'], 'served at its old place';

# a ticket that is not declared again does not return
my $state = $scripts->state;
$two->sync('void', limit => 2, ask => [ [1], [2] ]);
$one->ask('void', 1, limit => 2);
$two->sync('void', limit => 2, ask => [ [3], [4] ]);
$one->hello;
$one->declare('void', held => 1);
is_deeply $two->sync('void', limit => 2, release => 2)->{granted}, [3],
    'void ticket stepped over';
is $state->figure('void', 'parked'), 0, 'not counted as parked';
$one->declared;
$one->sync('void', limit => 2);
is_deeply [ $scripts->queue('void') ], [ $two->name . ' 1 4 1' ],
    'void ticket removed';

# the only permit that comes free
$two->ask('single', 1);
$one->ask('single', 2);
my $place = $one->{asked}{asked}{2}{place};
$two->ask('single', 3);
$one->hello;
$one->declare('single', tickets => [ [ 2, 1, $place ] ]);
is_deeply $two->sync('single', release => 1)->{granted}, [3],
    'single permit to the next ticket';
