#!/usr/bin/perl

# Permits are granted up to the limit, tickets are queued up to the bound of
# the queue, further asks are refused. No ask passes a waiting queue.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my %arg = (limit => 2, queue => 2);

is $one->ask('api', 1, %arg), 'granted', 'first granted';
is_deeply $one->{asked}{account}, [ 1, 0 ], 'account reported';
is $two->ask('api', 1, %arg), 'granted', 'second granted';
is $one->ask('api', 2, %arg), 'queued', 'third queued';
is $one->{asked}{asked}{2}{position}, 1, 'queued at the head';
is $two->ask('api', 2, %arg), 'queued', 'fourth queued';
is $two->{asked}{asked}{2}{position}, 2, 'second in line';
is $one->ask('api', 3, %arg), 'refused', 'fifth refused';

my $reply = $one->{asked};
is_deeply [ @$reply{qw/in_use limit waiting/} ], [ 2, 2, 2 ],
    'state reported';
is_deeply $reply->{account}, [ 1, 1 ], 'rejected ask not counted';
is_deeply $reply->{asked}{3},
    { verdict => 'refused', place => 0, position => 0 }, 'no queue position';

# several asks in one call, with a release in the same call
$reply = $one->sync('web', limit => 2,
    ask => [ map { [ $_, 1, 0, 1 ] } 1 .. 4 ]);
is_deeply [ map { $reply->{asked}{$_}{verdict} } 1 .. 4 ],
    [qw/granted granted queued refused/], 'several at once';
$reply = $one->sync('web', limit => 2, release => 1, ask => [ [5] ]);
is $reply->{asked}{5}{verdict}, 'queued', 'released permits to head';
is_deeply $reply->{granted}, [3], 'head notified';

# two semaphores are independent
is $two->ask('else', 9, limit => 1), 'granted', 'other name counted separately';
