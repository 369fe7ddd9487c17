#!/usr/bin/perl

# Tickets of dead sessions are dropped where they are met, some hundreds per
# call. Only tickets of live sessions are counted afterwards, and none waits
# behind dead ones.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $dead = $scripts->session('dead')->enter;
my %arg = (queue => 9999);

$dead->ask('api', 1);
$dead->ask('api', 2);
$one->ask('api', 3);
$two->ask('api', 4);
$one->ask('api', 5);
$one->bye($dead);

my $reply = $one->sync('api', check => [ [3], [5] ]);
is_deeply $reply->{checked}, { 3 => 0, 5 => 1 }, 'live head served';
is $reply->{waiting}, 2, 'live tickets counted';
is_deeply [ map { (split)[2] } $scripts->queue('api') ], [ 4, 5 ],
    'live places kept';
is $two->ask('api', 6, queue => 2), 'refused',
    'queue bound counts live tickets';

# garbage: a free permit for one ticket behind 700 dead ones
$dead = $scripts->session('dead2')->enter;
$one->ask('web', 1);
$dead->sync('web', ask => [ map { [ $_, 1, 0, 9999 ] } 1 .. 700 ]);
$two->ask('web', 2, %arg);
$one->bye($dead);
$two->ask('web', 3, %arg);
is $one->sync('web', release => 1)->{more}, 1, 'work is left';
my $left = $scripts->queue('web');
cmp_ok $left, '>', 400, 'not all dropped at once';
cmp_ok $left, '<=', 640, 'some dropped';
is_deeply $two->sync_all('web', 20)->{granted}, [2], 'live ticket served';
is scalar($scripts->queue('web')), 1, 'dead tickets dropped';
is $two->sync('web')->{waiting}, 1, 'live ticket counted';
is_deeply $two->sync_all('web', 5, release => 1)->{granted}, [3],
    'next ticket served';
$two->sync('web', release => 1);
is_deeply [ $scripts->queue('web') ], [], 'queue removed with last';

# no live ticket: all garbage is deleted with the queue
$dead = $scripts->session('dead3')->enter;
$one->ask('old', 1);
$dead->sync('old', ask => [ map { [ $_, 1, 0, 9999 ] } 1 .. 250 ]);
$one->bye($dead);
$one->ask('old', 2, queue => 0);
is_deeply [ $scripts->queue('old') ], [], 'dead queue removed';
is $one->sync('old')->{in_use}, 1, 'live permits kept';

# sessions that have ended, more than one call takes away: their tickets are met
# before their accounts
my @ended = map { $scripts->session("ended$_")->enter } 1 .. 60;
$one->ask('ended', 1);
$_->ask('ended', 1, %arg) for @ended;
$two->ask('ended', 2, %arg);
$one->bye($_) for @ended;
$one->sync('ended', release => 1);
$two->sync_all('ended', 20);
is $scripts->state->counts('ended'), '1 0', 'granted behind sessions that ended';
