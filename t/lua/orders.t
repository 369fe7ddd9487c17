#!/usr/bin/perl

# The operator's order overrides the limit of the asks, keeps the counts, and
# can pause: asks wait while paused, limit 0 refuses. Idle permits above it are
# recalled, a malformed order is ignored. Permits that it allows are no overage,
# nor are those of before it.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter->listen;
my $two = $scripts->session('two')->enter;

$one->ask('api', 1, limit => 3);
$scripts->order('api', 1);
is $two->ask('api', 2, limit => 3), 'queued', 'ordered limit applied';
is $two->{asked}{limit}, 1, 'ordered limit reported';
is $two->{asked}{in_use}, 1, 'count kept';
is $two->ask('api', 3, limit => 3, weight => 2), 'refused',
    'heavy ask rejected';

$scripts->order('api', 2);
is_deeply $two->sync('api')->{granted}, [2], 'raised order grants';
$scripts->order('api', 0);
is $two->ask('api', 4, limit => 3), 'refused', 'limit 0 rejects';

$scripts->order('api', undef, 1);
is $two->ask('api', 5, limit => 3), 'queued', 'paused ask queued';
is $two->{asked}{limit}, 3, 'configured limit reported';
is $two->ask('api', 6, limit => 3, queue => 0), 'refused',
    'paused without place';
is $two->ask('api', 7, limit => 3, weight => 4), 'refused', 'paused heavy ask';
is $one->sync('api', release => 1)->{waiting}, 1, 'no grant by release';
is $one->sync('api', check => [ [5] ])->{in_use}, 1, 'no grant by check';

$scripts->order('api', 1, 1);
is $two->sync('api', release => 1, check => [ [5] ])->{checked}{5}, 1,
    'limit and pause combined';
$scripts->state->drop_orders;
is_deeply $two->sync('api')->{granted}, [5], 'order removed';
is $two->sync('api')->{limit}, 3, 'configured limit applied again';

$scripts->order('else', 9);
is $two->ask('api', 8, limit => 1), 'queued', 'other name unaffected';

# idle permits: above the limit from the largest holder, while paused all
my %arg = (limit => 4, keep => 1);
my $three = $scripts->session('three')->enter->listen;
$two->listen;
$three->sync('idle', %arg, ask => [ [1], [2] ]);
$one->sync('idle', %arg, ask => [ [1] ]);
$two->sync('idle', limit => 4, ask => [ [1] ]);
$two->sync('idle', limit => 4);
is_deeply told(), [ '', '', '' ], 'limit kept: no recall';
$scripts->order('idle', 3);
$two->sync('idle', limit => 4);
is_deeply told(), [ '', '', 'recall idle 1' ], 'over the limit: recall';
$three->sync('idle', %arg);
told();
$one->sync('idle', %arg);
$scripts->order('idle', 9, 1);
$two->sync('idle', limit => 4);
is_deeply told(), [ 'recall idle 1', '', 'recall idle 1' ],
    'paused: recall of all';
$two->sync('idle', limit => 4);
is_deeply told(), [ '', '', '' ], 'recalled once';

# permits that a higher one allows are no overage, nor are those of before it
for ([ 5, 4, 0 ], [ 5, 7, 2 ], [ 1, 2, 0 ], [ 1, 4, 2 ]) {
    my ($limit, $held, $over) = @$_;
    $scripts->order('over', $limit);
    is $three->declare('over', held => $held, limit => 2)->{over}, $over,
        "$held permits with an order of $limit: overage of $over";
}
$three->declare('over', held => 0);

# malformed
for my $text ('', '5', '5 2', '5  0', ' 5 0', '5 0 ', 'x 0', '-1 0', '1e2 0',
    '1000000001 0', 'x' x 70)
{
    $scripts->state->order('bad', $text);
    my $reply = $two->sync('bad', limit => 4, ask => [ [9] ], release => 0);
    is "$reply->{limit} $reply->{asked}{9}{verdict}", '4 granted',
        "'$text' ignored";
    is_deeply [ $two->messages ], [ 'order bad 1 ' . substr $text, 0, 64 ],
        'and told';
    $two->sync('bad', limit => 4, release => 1);
    $two->messages;
}
$scripts->order('bad', 3, 0);
is $two->sync('bad', limit => 4)->{limit}, 3, 'mended';
is_deeply [ $two->messages ], [], 'nothing told';

# permits of ended sessions
$three->sync('gone', limit => 9, ask => [ map { [ $_ ] } 1 .. 5 ]);
$one->sync('gone', limit => 9, ask => [ [1], [2] ]);
$one->hello;
$one->declared;
$two->bye($three);
$two->sync('gone', limit => 9);
is_deeply [ $two->messages ], [ 'reclaimed gone 1 5' ], 'reclaimed told';
$two->sync('gone', limit => 9);
is_deeply [ $two->messages ], [], 'once';
is $scripts->state->held('gone'), 0, 'older epoch: not counted as such';

my $four = $scripts->session('four')->enter;
$four->sync('gone', limit => 9, ask => [ [1], [2] ]);
$two->bye($four);
$one->hello;
$one->messages;
$one->declare('gone', held => 1, limit => 9);
is_deeply [ $one->messages ], [ 'reclaimed gone 3 2' ], 'told by declare';

$scripts->done;

sub told { return [ map { join ' ', $_->messages } $one, $two, $three ] }
