#!/usr/bin/perl

# A parked ticket is cancelled, checked, declared and removed like any other,
# and hides no ticket of another class.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $number = 0;

# a session with two parked tickets, and a permit in use
sub parked {
    my ($name) = @_;
    my $silent = $scripts->session('silent' . ++$number)->enter->listen;
    $one->ask($name, 1);
    $silent->sync($name, ask => [ [1], [2] ]);
    $scripts->pass(3000, $one);
    $one->ask($name, 2);
    is_deeply $one->sync($name, release => 1)->{granted}, [2],
        "$name: stepped over";
    is $state->figure($name, 'parked'), 2, "$name: both parked";
    return $silent;
}

my $silent = parked('cancelled');
my $reply = $silent->sync('cancelled', cancel => [ [1] ]);
is $reply->{cancelled}{1}, 1, 'cancelled in time';
is_deeply $reply->{account}, [ 0, 1 ], 'other one waits';
is_deeply [ map { (split)[2] } $scripts->queue('cancelled') ], [2],
    'place restored';
is $state->figure('cancelled', 'parked'), 0, 'none counted as parked';
$silent->beat;
$one->sync('cancelled', release => 1);
is_deeply [ grep { /^grant/ } $silent->messages ],
    ['grant cancelled 1 1 1 2'], 'and served';

$silent = parked('checked');
is_deeply $silent->sync('checked', check => [ [1], [2] ])->{checked},
    { 1 => 1, 2 => 1 }, 'both queued';
is $state->figure('checked', 'parked'), 0, 'no longer parked';

# the queue is lost while the state recovers, when nothing begins anew
$silent = parked('gone');
$state->delete_queue('gone');
my $until = $state->shard('recover_until');
$state->set_shard(recover_until => $state->shard('clock') + 1000);
$silent->sync('gone');
is $state->figure('gone', 'parked'), 0, 'none parked in a lost queue';
$state->set_shard(recover_until => $until);

# their list is lost
$silent = parked('listless');
$state->set_account('listless', $silent->name, $silent->epoch, 0, 2, 0, 2, 0);
is $silent->sync('listless')->{account}[1], 2, 'list lost: both wait';
is $state->figure('listless', 'parked'), 0, 'and are not found again';

$silent = parked('declared');
my ($place) = grep { /^silent/ } $scripts->queue('declared');
my $known = $state->places('declared')->{$place} - 10 ** 15;
$silent->hello;
my $places = $silent->declare('declared', tickets => [ [1], [2] ])->{places};
is_deeply $places, [ $known, $known + 1 ], 'places found';
is $state->figure('declared', 'parked'), 0, 'no longer parked';
$silent->declared;
$one->sync('declared', release => 1);
is_deeply [ $silent->messages ], ['grant declared 2 1 1 1'], 'first one served';

$silent = parked('removed');
$one->bye($silent);
$one->sync_all('removed', 5);
is_deeply [ $scripts->queue('removed') ], [], 'tickets removed';
is $state->counts('removed'), '1 0', 'none counted';
is scalar(grep { /^parked:/ }
    @{ $scripts->redis->cmd('HKEYS', $state->semaphore_key('removed')) }), 0,
    'no list left';

# more than one call takes out, by the log and by a scan
for my $name (qw/log scan/) {
    $silent = $scripts->session($name)->enter;
    $one->ask($name, 1);
    $silent->sync($name, ask => [ map { [$_, 1, 0, 999] } 1 .. 130 ]);
    $scripts->pass(3000, $one);
    $one->ask($name, 2, queue => 999);
    $one->sync_all($name, 5, release => 1);
    is $state->figure($name, 'parked'), 130, "$name: all parked";
    $one->bye($silent);
    $state->set_figure($name, seen => $state->shard('ended') + 1)
        if $name eq 'scan';
    is $one->sync($name)->{more}, 1, "$name: some left";
    $one->sync_all($name, 9);
    is_deeply [ $scripts->queue($name) ], [], "$name: all removed";
    is $state->counts($name), '1 0', "$name: none counted";
}

# more than one call brings back
$silent = $scripts->session('many')->enter;
$one->ask('many', 1);
$silent->sync('many', ask => [ map { [$_, 1, 0, 999] } 1 .. 130 ]);
$scripts->pass(3000, $one);
$one->ask('many', 2, queue => 999);
$one->sync_all('many', 5, release => 1);
$silent->sync('many', cancel => [ [1] ]);
my $parked = grep { $_ > 5e14 } values %{ $state->places('many') };
cmp_ok $parked, '>', 0, 'some still parked';
is $state->figure('many', 'parked'), $parked, 'without the cancelled one';

# the lists are lost: tickets stay behind all others, and leave as others do
$silent = parked('unlisted');
my @list = grep { /^parked:/ }
    @{ $scripts->redis->cmd('HKEYS', $state->semaphore_key('unlisted')) };
$scripts->redis->cmd('HDEL', $state->semaphore_key('unlisted'), @list);
is_deeply $silent->sync('unlisted', check => [ [1] ])->{checked}, { 1 => 1 },
    'not listed: still queued';
is_deeply $silent->sync('unlisted', cancel => [ [1], [2] ])->{account},
    [ 0, 0 ], 'not listed: cancelled';
is $state->figure('unlisted', 'parked'), 0, 'not listed: none counted';
$silent = parked('unlisted2');
$scripts->redis->cmd('HDEL', $state->semaphore_key('unlisted2'),
    'parked:' . $silent->name . ':1');
$one->bye($silent);
$one->sync_all('unlisted2', 5);
is $state->counts('unlisted2'), '1 0', 'not listed: none counted of the dead';

# a walk that reaches parked tickets ends there
$silent = parked('reached');
my %places = %{ $state->places('reached') };
$one->ask('reached', 3);
$scripts->order('reached', 5);
is_deeply $one->sync('reached')->{granted}, [3], 'live ticket granted';
is_deeply $state->places('reached'), \%places, 'parked ones not touched';
$state->drop_orders;

# a heavy ticket is parked while a lower limit is in force
my $two = $scripts->session('two')->enter->listen;
$one->ask('heavy', 1, limit => 3);
$one->ask('heavy', 2, limit => 3);
$two->ask('heavy', 1, limit => 3, weight => 2);
$scripts->order('heavy', 1);
$one->sync('heavy', limit => 3, release => 2);
is $state->figure('heavy', 'parked'), 1, 'heavy one parked';
$two->sync('heavy', limit => 3);
$two->sync('heavy', limit => 3);
is $state->figure('heavy', 'parked'), 1, 'still too heavy';
$state->drop_orders;
is_deeply $two->sync('heavy', limit => 3)->{granted}, [1],
    'granted by the raised limit';

# a better class
$silent = parked('class');
$one->sync('class', ask => [ [ 8, 1, 1, 9 ], [ 9, 1, -1, 9 ] ]);
is_deeply $one->sync('class', release => 1)->{granted}, [9],
    'better class served';
is_deeply $one->sync('class', release => 1)->{granted}, [8],
    'worse class served';
