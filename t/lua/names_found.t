#!/usr/bin/perl

# names finds all names that have literal limits or orders, some per step, and
# changes nothing.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one');

is_deeply $one->names,
    { status => 'ok', cursor => 0, names => [], nodes => {} },
    'no state';
$state->order('early', '5 0');
is_deeply $one->names->{names}, [ 'early' ], 'order without a head';

$one->configured('a1', { map { $_ => 5 } qw/api web both/ });
$state->order($_, '5 0') for 'both', 'a%20b', 'h~0', 'x' x 200,
    # names that no worker has
    'a b', "a\nname x", '', 'a;b', "a\0", 'x' x 201;
$one->ask('dynamic', 1);
is_deeply [ sort @{ $one->names->{names} } ],
    [ sort qw/api web both early a%20b h~0/, 'x' x 200 ], 'each name once';

# many fields
$redis->cmd('HSET', $state->key, map { ("limit:n$_" => '9 ' . 'f' x 40) }
    1 .. 1000);
my $before = $scripts->dump;
my ($cursor, $steps, $most, $bytes, $scans, %found) = (0, 0, 0, 0, 0);
do {
    my $reply;
    my $calls = $scripts->calls(sub { $reply = $one->names($cursor) });
    $found{$_} = 1 for @{ $reply->{names} };
    $most = @{ $reply->{names} } if @{ $reply->{names} } > $most;
    $scans = $calls->{hscan} if $calls->{hscan} > $scans;
    $cursor = $reply->{cursor};
} while ($cursor && ++$steps < 100);
is $cursor, 0, 'search ended';
is scalar(keys %found), 1007, 'all found';
cmp_ok $most, '>', 50, 'many in a step';
cmp_ok $most, '<', 400, 'not all';
cmp_ok $scans, '<=', 4, 'few commands in a step';
is $scripts->dump, $before, 'nothing written';

# a step ends early where fields are long
$redis->cmd('HSET', $state->key, map { ("names:$_/0" => 'x 9 ' x 5000) }
    1 .. 500);
cmp_ok $scripts->calls(sub { $one->names })->{hscan}, '<', 4, 'early end';

$redis->cmd('FLUSHALL');
$redis->cmd('HSET', $state->key, '.', '4 4711 9 1 0 4711 0 0 0', 'order:api',
    '5 0');
is_deeply $one->names, { status => 'layout', names => [], nodes => {} },
    'other layout';
