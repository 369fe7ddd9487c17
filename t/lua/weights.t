#!/usr/bin/perl

# The head waits for its whole weight. It is never overtaken by a lighter
# ticket behind it.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my %arg = (limit => 3);

is $one->ask('api', 1, %arg, weight => 2), 'granted', 'two of three';
is $two->ask('api', 2, %arg, weight => 2), 'queued', 'heavy ticket waits';
is $one->ask('api', 3, %arg, weight => 1), 'queued', 'light ticket behind';
is $one->{asked}{in_use}, 2, 'one permit free';
$one->sync('full', %arg, ask => [ map { [ $_, 1, 0, 9 ] } 1 .. 4 ]);
is $one->ask('full', 5, %arg, weight => 4), 'refused',
    'heavier than the limit';

my $reply = $one->sync('api', check => [ [3] ]);
is $reply->{checked}{3}, 1, 'no overtaking at a check';
is $reply->{in_use}, 2, 'one permit still free';

$reply = $one->sync('api', release => 1);
is $reply->{in_use}, 3, 'heavy head served';
$reply = $one->sync('api', release => 1);
is_deeply $reply->{granted}, [3], 'light ticket served next';
is $reply->{in_use}, 3, 'all permits in use';
is_deeply $two->sync('api')->{account}, [ 2, 0 ], 'whole weight counted';

# when the heavy ticket is cancelled, the light one behind it is granted at
# once
$two->ask('api', 4, weight => 3, %arg);
$one->ask('api', 5, %arg);
$one->sync('api', release => 1);
$reply = $two->sync('api', cancel => [ [ 4, 3 ] ]);
is $reply->{cancelled}{4}, 1, 'heavy ticket cancelled';
is $reply->{in_use}, 3, 'light ticket served';
