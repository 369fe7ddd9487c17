#!/usr/bin/perl

# inspect tells what live sessions have of semaphores, and their limits; it
# changes nothing but a note for the beats.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my ($one, $two, $three) = map { $scripts->session($_) } qw/one two three/;

# before the first session
is_deeply $one->inspect([ 'api' ], watch => 5000), {
    status => 'ok', shard => { gen => 0, clock => 0, recovery => 0, live => 0 },
    semaphores => [ nothing('api') ],
}, 'no state';
is $redis->cmd('DBSIZE'), 0, 'nothing written';

$scripts->order('web', 5, 1);
is_deeply inspect('web'), { %{ nothing('web') }, limit => 5, ordered => 5,
    paused => 1 }, 'order without a head';

$_->enter for $one, $two, $three;
$scripts->state->drop_orders;
my %arg = (limit => 3, queue => 9);
$one->ask('api', 1, %arg, weight => 2);
$two->ask('api', 1, %arg);
$two->ask('api', $_, %arg) for 2, 3;
$three->ask('api', 1, %arg);
$one->ask('web', 1, limit => 9);

my $reply = $one->inspect([qw/api web none/]);
whole($_) for @{ $reply->{semaphores} };
is_deeply $reply->{shard}, { gen => $one->gen, live => 3, recovery => 0,
    clock => $scripts->meta('clock') }, 'shard';
is_deeply $reply->{semaphores}, [
    { %{ nothing('api') }, held => 3, waiting => 3, limit => 3,
        configured => 3, accounts => { $one->name => account(2, 0),
            $two->name => account(1, 2), $three->name => account(0, 1) } },
    { %{ nothing('web') }, held => 1, limit => 9, configured => 9,
        accounts => { $one->name => account(1, 0) } },
    nothing('none'),
], 'figures and accounts';

# silent, expired, removed
$scripts->pass(3000, $one);
is_deeply inspect('api')->{accounts}{ $two->name },
    account(1, 2, lease => 2000, heard => 0), 'silent session';
$scripts->advance(2500);
is_deeply [ map { $_->{live}, $_->{recovery} } $one->inspect([])->{shard} ],
    [ 1, 0 ], 'expired sessions not counted';
$reply = inspect('api');
is_deeply [ keys %{ $reply->{accounts} } ], [ $one->name ],
    'expired sessions left out';
is "$reply->{held} $reply->{waiting} $reply->{partial}", '2 0 0',
    'figures without them';
is $state->counts('api'), '3 3', 'account kept';
$one->bye($two);
is_deeply [ keys %{ inspect('api')->{accounts} } ], [ $one->name ],
    'removed session left out';

# accounts of older epochs are void
$one->hello;
is inspect('web')->{held}, 1, 'counted until declared';
$one->declared;
is_deeply inspect('web'), { %{ nothing('web') }, limit => 9, configured => 9 },
    'void account left out';

# limits and orders
$redis->cmd('FLUSHALL');
$one = $scripts->session('one')->configured('a20', { api => 20, web => 1 });
$two = $scripts->session('two')->configured('a30', { api => 30 });
$three = $scripts->session('three')->configured('a10', { api => 10 });
is_deeply inspect('api'), { %{ nothing('api') }, limit => 10, configured => 10,
    asks => [ [ 20, 'one' ], [ 30, 'two' ] ] }, 'others ask for more';
$scripts->order('api', 15);
is_deeply [ @{ inspect('api') }{qw/limit configured ordered paused/} ],
    [ 15, 10, 15, 0 ], 'order in force';
is scalar @{ inspect('api')->{asks} }, 2, 'others as without the order';
$scripts->order('api', undef, 1);
is_deeply [ @{ inspect('api') }{qw/limit configured ordered paused/} ],
    [ 10, 10, '-', 1 ], 'pause only';
for my $text ('', '1', 'x 0', '5 2', '5  0', "5 0\n", '-1 0', '1e3 0', '0x5 0',
    '1000000001 0', '99999999999 0', '5.5 0', '5 0 0', "a\nsemaphore x 0")
{
    $state->order('api', $text);
    is_deeply [ @{ inspect('api') }{qw/limit ordered paused/} ],
        [ 10, '-', 0 ], "malformed order '" . ($text =~ s/\n/ /gr)
        . "' ignored";
}
$state->drop_orders;
$one->bye;
is_deeply inspect('api', $two)->{asks}, [ [ 30, 'two' ] ],
    'configuration without sessions left out';
$redis->cmd('HSET', $state->key, 'config:a30', '0 1 1 two a30');
is_deeply inspect('api', $two)->{asks}, [], 'one to be withdrawn left out';
$redis->cmd('HSET', $state->key, 'config:a30', '1 1 1 two a30');
$redis->cmd('HSET', $state->key, 'config:a30', '1 1 1 ' . 'x' x 256 . ' a30');
is_deeply inspect('api', $two)->{asks}, [], 'foreign node left out';
$redis->cmd('HDEL', $state->key, 'config:a30');
is_deeply inspect('api', $two)->{asks}, [], 'unknown one left out';
$redis->cmd('HSET', $state->key, 'config:a30', '1 1 1 two a30');
my $limits = $state->shard('limit:api');
$redis->cmd('HSET', $state->key, 'limit:api', "x;${limits}x a30;");
is_deeply inspect('api', $two)->{asks}, [ [ 10, 'three' ], [ 30, 'two' ] ],
    'foreign limits left out';
$redis->cmd('HSET', $state->key, 'limit:api', $limits);
my @more = map { $scripts->session("n$_")
    ->configured("c$_", { api => 40 + $_ / 2 % 4 }) } 1 .. 12;
is_deeply inspect('api', $two)->{asks}, [ [ 30, 'two' ], [ 40, 'n1' ],
    [ 40, 'n8' ], [ 40, 'n9' ], map { [ 41, "n$_" ] } 2, 3, 10, 11 ],
    'eight of many';

# the time in which beats tell idle permits, and nothing else
my $before = $scripts->dump;
$two->inspect([qw/api none/]);
is $scripts->dump, $before, 'nothing written';
my $clock = $scripts->meta('clock');
for ([ 0, 4000, 4000 ], [ 900, 4000, 3100 ], [ 200, 4000, 4000 ],
    [ 0, 8000, 8000 ], [ 0, 0, 8000 ])
{
    my ($ms, $watch, $left) = @$_;
    $scripts->advance($ms);
    $clock += $ms;
    $two->inspect([qw/api none/], watch => $watch);
    is $scripts->meta('watched') - $clock, $left, "$left ms watched";
}
$scripts->meta(watched => $_), is $two->inspect([], watch => 2000)->{status},
    'ok', "watched '$_'" for 'nan', '', '9' x 400, 9e15;
is $scripts->meta('watched') - $clock, 2000, 'watched written anew';

# keys of the wrong type
$three->ask('api', 1, limit => 10, literal => 1, keep => 1);
$redis->cmd('SET', $state->idle_key, 'foreign');
is inspect('api', $two)->{held}, 1, 'idle permits unreadable';
$redis->cmd('DEL', $state->semaphore_keys('api'));
$redis->cmd('SET', $state->semaphore_key('api'), 'foreign');
is inspect('api', $two)->{held}, 0, 'semaphore unreadable';

$redis->cmd('FLUSHALL');
$redis->cmd('HSET', $state->key, '.', "4 4711 9 1 0 4711 0 0 0");
is_deeply $one->inspect([ 'api' ], watch => 1000), { status => 'layout',
    semaphores => [] }, 'other layout';
is $redis->cmd('HLEN', $state->key), 1, 'nothing written';

$scripts->done;

sub inspect {
    my ($name, $session) = @_;
    return whole(($session // $one)->inspect([ $name ])->{semaphores}[0]);
}

# leases in seconds: some time passes while a test runs
sub whole {
    my ($of) = @_;
    $_->{lease} = 1000 * int(($_->{lease} + 999) / 1000)
        for values %{ $of->{accounts} };
    return $of;
}

sub nothing {
    my ($name) = @_;
    return { name => $name, held => 0, waiting => 0, limit => '-',
        configured => '-', ordered => '-', paused => 0, partial => 0,
        accounts => {}, asks => [] };
}

sub account {
    my ($held, $waiting, %arg) = @_;
    return { held => $held, waiting => $waiting, idle => 0, lease => 5000,
        heard => 1, %arg };
}
