#!/usr/bin/perl

# During recovery Redis grants nothing and queues no new ask; declares,
# releases and cancels go on.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter(gen => 99);
my $two = $scripts->session('two')->enter;

$one->declare('api', held => 2, tickets => [ [ 1, 1, 10 ], [ 2, 1, 11 ] ]);
is $one->ask('api', 3, limit => 2), 'recovering', 'new ask rejected';
cmp_ok $one->{asked}{recovery}, '>', 3000, 'remaining time reported';
is_deeply $one->{asked}{asked}{3},
    { verdict => 'recovering', place => 0, position => 0 }, 'no queue position';
is_deeply $one->{asked}{account}, [ 2, 2 ], 'account unchanged';

my $reply = $one->sync('api', release => 1, cancel => [ [2] ],
    check => [ [1] ]);
is_deeply $reply->{account}, [ 1, 1 ], 'release and cancel accepted';
is $reply->{checked}{1}, 1, 'no grant';
is $two->ask('free', 4, limit => 9), 'recovering', 'other names rejected too';
is $scripts->state->exists('free'), 0, 'no keys created';

$scripts->pass(5000, $one, $two);
is_deeply $one->sync('api')->{granted}, [1], 'granted after recovery';
is $two->ask('api', 5, limit => 2), 'queued', 'later ask queued';
is $two->ask('free', 6, limit => 2), 'granted', 'other names granted too';
