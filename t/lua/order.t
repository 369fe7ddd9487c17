#!/usr/bin/perl

# order sets and ends the operator's order of a semaphore, and applies it at
# once: it serves the queue, and recalls idle permits.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my ($one, $two, $three) = map { $scripts->session($_) } qw/one two three/;

$one->{epoch} = 1;
is $one->order('api', 5, 0)->{status}, 'resync', 'session unknown';
$one->{epoch} = 0;
is $redis->cmd('DBSIZE'), 0, 'nothing written';
$_->enter->listen for $one, $two, $three;

# an order without a semaphore, and each part alone
is_deeply order('api', '=', '='), reply(), 'none';
is_deeply order('api', 7, '='), reply(limit => 7, ordered => 7), 'limit';
is $state->ordered('api'), '7 0', 'limit written';
is_deeply order('api', '=', 1), reply(limit => 7, ordered => 7, paused => 1,
    was_ordered => 7), 'pause, limit kept';
is_deeply order('api', '-', '='), reply(paused => 1, was_ordered => 7,
    was_paused => 1), 'limit ended, pause kept';
is $state->ordered('api'), '- 1', 'pause written';
is_deeply order('api', '=', 0), reply(was_paused => 1), 'pause ended';
is $state->ordered('api'), undef, 'no order left';
is_deeply order('api', '0000000012', 1), reply(limit => 12, ordered => 12,
    paused => 1), 'limit and pause';
is $state->ordered('api'), '12 1', 'number as Redis keeps it';
my $before = $scripts->dump;
is_deeply order('api', '=', '='), reply(limit => 12, ordered => 12,
    paused => 1, was_ordered => 12, was_paused => 1), 'as it is';
is $scripts->dump, $before, 'nothing written';
is_deeply order('api', '-', 0), reply(was_ordered => 12, was_paused => 1),
    'ended';
$one->order('api', 0, 0);
is $state->ordered('api'), '0 0', 'limit 0';
$one->order('api', 1e9, '=');
is $state->ordered('api'), '1000000000 0', 'largest limit';
is $redis->cmd('EXISTS', $state->semaphore_keys('api')), 0, 'no semaphore';

# one that was set by hand
$state->order('api', '5x 1');
is_deeply order('api', '=', '='), reply(), 'malformed one counts as none';
is $state->ordered('api'), '5x 1', 'and is left';
is_deeply [ $one->messages ], [], 'no semaphore, no message';
is_deeply order('api', '=', 1), reply(paused => 1), 'replaced';
$state->order('api', 'zzz');
$one->order('api', '-', 0);
is $state->ordered('api'), undef, 'deleted';

# a lowered limit drains, a raised one grants
my %arg = (limit => 4, queue => 9);
$two->sync('api', %arg, ask => [ map { [ $_ ] } 1 .. 3 ]);
$three->sync('api', %arg, ask => [ map { [ $_ ] } 1 .. 3 ]);
$one->ask('api', $_, %arg) for 1, 2;
my %of = (configured => 4, held => 4, waiting => 4);
is_deeply order('api', 2, '='), reply(%of, limit => 2, ordered => 2),
    'lowered: count kept';
$two->sync('api', release => 2);
is_deeply [ map { $_->messages } $one, $three ], [], 'nothing granted';
is_deeply order('api', 3, '='), reply(%of, limit => 3, ordered => 3,
    was_ordered => 2, held => 3, waiting => 3), 'raised: one granted';
is_deeply [ $three->messages ], [ 'grant api 1 3 3 2' ], 'head notified';
is_deeply order('api', '-', 1), reply(%of, limit => 4, was_ordered => 3,
    paused => 1, held => 3, waiting => 3), 'raised and paused: none';
is_deeply order('api', '=', 0), reply(%of, limit => 4, was_paused => 1,
    waiting => 2), 'no longer paused: granted';
is_deeply [ $three->messages ], [ 'grant api 1 4 4 3' ], 'next notified';
is_deeply order('api', 6, '='), reply(%of, limit => 6, ordered => 6,
    held => 6, waiting => 0), 'all granted';
is_deeply [ $one->messages ], [ 'grant api 1 6 6 1 2' ],
    'also to the calling session';
is_deeply [ $state->queue('api') ], [], 'queue empty';
is_deeply [ map { $state->account('api', $_->name)->{held} } $one, $two,
    $three ], [ 2, 1, 3 ], 'accounts';
$state->drop_orders;

# literal limits
$_->bye for $one, $two, $three;
$_ = $scripts->session($_->name =~ s/:.*//r)->listen for $one, $two, $three;
$one->configured('a5', { lit => 5 });
$_->enter for $two, $three;
is_deeply order('lit', '=', 1), reply(limit => 5, configured => 5,
    paused => 1), 'literal limit';
is_deeply order('lit', 3, 0), reply(limit => 3, configured => 5, ordered => 3,
    was_paused => 1), 'ordered limit below it';

# idle permits: as many as the limit is exceeded by, all while paused
%arg = (limit => 6, keep => 1);
$one->sync('idle', %arg, ask => [ [1] ]);
$two->sync('idle', %arg, ask => [ [1], [2], [3] ]);
$three->sync('idle', %arg, ask => [ [1], [2] ]);
$one->order('idle', 7, '=');
is_deeply recalled(), [ '', '', '' ], 'raised: no recall';
$one->order('idle', 4, '=');
is_deeply recalled(), [ '', 'recall', '' ], 'lowered: largest recalled';
$one->order('idle', 4, '=');
is_deeply recalled(), [ '', '', 'recall' ], 'again: the next one';
$two->sync('idle', keep => 1);
$three->sync('idle', keep => 1);
is_deeply recalled(), [ 'recall', 'recall', '' ], 'recalled by sync, too';
$one->order('idle', '-', 0);
$_->sync('idle', %arg) for $one, $two, $three;
is_deeply recalled(), [ '', '', '' ], 'no longer lowered: no recall';
$one->order('idle', 9, 1);
is_deeply recalled(), [ 'recall', 'recall', 'recall' ], 'paused: all';
is $state->figure('idle', 'active'), 0, 'none is left to recall';

# permits of ended sessions are taken back first
$two->sync('ended', limit => 2, ask => [ [1], [2] ]);
$three->ask('ended', 1, limit => 2);
$one->bye($two);
is_deeply order('ended', '=', '='), reply(limit => 2, configured => 2,
    held => 1), 'granted';
is_deeply [ $three->messages ], [ 'grant ended 1 1 2 1' ], 'head notified';
is_deeply [ grep { !/recall/ } $one->messages ], [ 'reclaimed ended 1 2' ],
    'permits told';
$three->sync('ended', release => 1);
is $state->exists('ended'), 0, 'semaphore gone';

# with another epoch, other layouts, broken and lost keys nothing is ordered
my %was = (limit => 3, queue => 9);
$one->ask('bad', $_, %was) for 1 .. 5;
my @bad = (
    [ 'other epoch', 'resync', sub { $one->{epoch} = 2 } ],
    [ 'foreign semaphore', 'broken', sub { replace('semaphore_key') } ],
    [ 'foreign queue', 'broken', sub { replace('queue_key') } ],
    [ 'queue lost', 'resync', sub { $state->delete_queue('bad') } ],
);
for (@bad) {
    my ($what, $status, $code) = @$_;
    $code->();
    is $one->order('bad', 9, 0)->{status}, $status, "$what: $status";
    is $state->ordered('bad'), undef, "$what: no order";
    $one->{epoch} = 1;
    for ($state->semaphore_keys('bad')) {
        next unless $redis->cmd('EXISTS', "$_.kept");
        $redis->cmd('RENAME', "$_.kept", $_);
    }
}
cmp_ok $scripts->meta('recover_until'), '>', $scripts->meta('clock'),
    'queue lost: state recovers';

$redis->cmd('FLUSHALL');
$one = $scripts->session('one')->enter;
$redis->cmd('HSET', $state->semaphore_key('odd'), '.', 'x', a => 1);
is_deeply order('odd', 3, 1), reply(limit => 3, ordered => 3, paused => 1),
    'head not understood: set';
is $redis->cmd('HLEN', $state->semaphore_key('odd')), 2, 'nothing else done';

# while the state recovers the order is set, and nothing is granted
$redis->cmd('FLUSHALL');
$one = $scripts->session('one')->enter;
$one->ask('api', $_, limit => 1, queue => 9) for 1, 2;
$scripts->meta(recover_until => $scripts->meta('clock') + 1000);
is_deeply order('api', 2, 0), reply(limit => 2, configured => 1, ordered => 2,
    held => 1, waiting => 1), 'recovering: set, not granted';
$scripts->advance(1000);
is $one->order('api', '=', '=')->{held}, 2, 'recovered: granted';

$scripts->done;

sub order {
    my $of = $one->order(@_);
    delete $of->{status};
    return $of;
}

sub reply {
    return { limit => -1, configured => -1, ordered => -1, paused => 0,
        held => 0, waiting => 0, more => 0, was_ordered => -1,
        was_paused => 0, refused => 0, highest => -1, @_ };
}

sub recalled { return [ map { join ' ', map { /^(\w+)/ } $_->messages } $one,
    $two, $three ] }

sub replace {
    my ($which) = @_;
    my $key = $state->$which('bad');
    $redis->cmd('RENAME', $key, "$key.kept");
    $redis->cmd('SET', $key, 'foreign');
}
