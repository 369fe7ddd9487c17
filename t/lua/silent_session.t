#!/usr/bin/perl

# A ticket of a session that is silent for two heartbeats is stepped over and
# keeps its place. It hides no ticket behind it, however many such tickets
# there are.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;

$two->ask('api', 1);
$one->ask('api', $_) for 2 .. 5;
$two->ask('api', $_) for 6, 7;

$scripts->pass(1500, $two);
$two->sync('api', release => 1);
is_deeply [ $one->messages ], ['grant api 1 1 1 2'], 'not yet silent';
$one->sync('api', release => 1);
is_deeply [ $one->messages ], [], 'own tickets in reply';

$scripts->pass(1000, $two);
is_deeply $one->sync('api', release => 1)->{granted}, [],
    'silent ticket stepped over';
is_deeply $two->sync('api', check => [ [6], [7] ])->{checked},
    { 6 => 0, 7 => 1 }, 'next ticket served';
is_deeply [ map { (split)[2] } $scripts->queue('api') ], [ 4, 5, 7 ],
    'places kept';

# a queue full of such tickets does not refuse an ask beside a free permit
$two->sync('api', release => 1);
is $two->sync('api', release => 1)->{in_use}, 0, 'one permit free';
is $two->ask('api', 8, queue => 2), 'granted', 'granted beyond the queue';
is $two->ask('api', 9, queue => 2), 'refused', 'queue bound kept otherwise';
is $two->sync('api')->{waiting}, 2, 'rejected ask not counted';

$one->beat;
$two->sync('api', release => 1);
is_deeply [ $one->messages ], [ "beat $one->{number}", 'grant api 1 1 1 4' ],
    'served after next beat';

$scripts->done;
