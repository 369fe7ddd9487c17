#!/usr/bin/perl

# Permits that lie idle with their sessions are recalled as soon as somebody
# waits: from the largest holders, until the demand is covered, each once
# until it speaks. Meanwhile nobody is refused for want of a place.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my ($one, $two, $three, $asks) =
    map { $scripts->session($_)->enter->listen } qw/one two three asks/;
my %arg = (limit => 6, queue => 1);

sub told { return map { [ $_->messages ] } $one, $two, $three }

sub recall { return 'recall api ' . $_[0]->epoch }

# one keeps three permits, two keeps two, three uses its own

$one->sync('api', %arg, keep => 1, ask => [ map { [ $_ ] } 1 .. 3 ]);
$two->sync('api', %arg, keep => 1, ask => [ [4], [5] ]);
my $reply = $three->sync('api', %arg, ask => [ [6] ]);
is $reply->{may_keep}, 1, 'nobody waits: what comes free may stay';
is $scripts->state('api')->{keep}, '2 0', 'two of them keep';

is $asks->ask('api', 1, %arg), 'queued', 'all out: queued';
is $asks->{asked}{may_keep}, 0, 'nobody may keep any more';
is_deeply [ told() ], [ [ recall($one) ], [], [] ],
    'the largest holder is asked, it can cover the demand';
is $scripts->state('api')->{keep}, '1 1', 'and so it stands';

# more wait than have a place: others may have idle permits

is $asks->ask('api', 2, %arg), 'queued', 'not refused beside what may be idle';
is_deeply [ told() ], [ [], [ recall($two) ], [] ],
    'the next holder is asked, the first one only once';
is $asks->ask('api', $_, %arg), 'queued', "$_: at most what others hold"
    for 3 .. 7;
is $asks->ask('api', 8, %arg), 'refused', 'no more than that';

# who has nothing idle says so, and is not counted on any more

$reply = $one->sync('api', %arg);
is $scripts->state('api')->{keep}, '0 1', 'has spoken';
is $asks->ask('api', 9, %arg), 'refused', 'still too many';
$two->sync('api', %arg, release => 2);
is $scripts->state('api')->{keep}, undef, 'nobody keeps';
is_deeply [ $asks->messages ], [
    sprintf 'grant api %d 6 6 1 2', $asks->epoch ], 'handed to the head';
is_deeply [ told() ], [ [], [], [] ], 'and nobody is asked in vain';

# while others wait a session that still keeps is told by its answer

$reply = $one->sync('api', %arg, keep => 1, release => 1);
is $reply->{may_keep}, 0, 'somebody waits';
is_deeply [ told() ], [ [], [], [] ], 'no message beside the answer';
$one->sync('api', %arg, release => 2);

# the dead do not keep

my $dead = $scripts->session('dead')->enter;
$dead->sync('web', %arg, keep => 1, ask => [ map { [ $_ ] } 1 .. 6 ]);
is $scripts->state('web')->{keep}, '1 0', 'keeps';
$one->bye($dead);
is $asks->ask('web', 1, %arg), 'granted', 'permits of the dead are free';
is $scripts->state('web')->{keep}, undef, 'nobody keeps any more';

# an operator's order stops it as well

$one->sync('ops', %arg, keep => 1, ask => [ [1] ]);
$scripts->order('ops', undef, 1);
is $one->sync('ops', %arg, keep => 1)->{may_keep}, 0, 'paused';
$scripts->order('ops', 0, 0);
is $one->sync('ops', %arg, keep => 1)->{may_keep}, 0, 'limit lowered';
$scripts->order('ops', 3, 0);
is $one->sync('ops', %arg, keep => 1)->{may_keep}, 1, 'as before';

$scripts->done;
