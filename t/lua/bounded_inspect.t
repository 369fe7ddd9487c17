#!/usr/bin/perl

# inspect and names with a thousand sessions in semaphores, 32 lists of servers in
# pools, and 20,000 fields in the shard: a call reads some of them, and says so.

use FindBin;
use List::Util qw(sum0);
use lib "$FindBin::Bin/../lib";
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->enter;
my $ends = $scripts->meta('clock') + 5000;

my @crowd = map { sprintf 'n%d:%d:%x', $_ / 8, $_ % 8, $_ } 1 .. 1000;
$redis->cmd('HSET', $state->key, map { ($_ => "1 1 5000 $ends -") } @crowd);
$redis->cmd('ZADD', $state->key('sessions'), map { ($ends, $_) } @crowd);
$scripts->meta(sessions => 1001);
$redis->cmd('HSET', $state->key, map { ("limit:n$_" => '9 ' . 'f' x 40) }
    1 .. 20_000);
my @large = map { "large$_" } 1 .. 32;
my @small = map { "small$_" } 1 .. 32;
for my $name (@large, @small) {
    my @of = $name =~ /large/ ? @crowd : @crowd[0 .. 14];
    $one->ask($name, 1, limit => 5000);
    $redis->cmd('HSET', $state->semaphore_key($name),
        map { ($_ => '1 3 1 1') } @of);
    $state->set_figure($name, held => 1 + 3 * @of);
}

my $reply = inspect('one large', [ 'large1' ], 1024);
my ($of) = @{ $reply->{semaphores} };
is "$of->{held} $of->{partial}", '3001 1', 'held by all, told as partial';
cmp_ok accounts($reply), '>', 300, 'many accounts';
cmp_ok accounts($reply), '<=', 500, 'not all';

$reply = inspect('32 large', \@large, 1024);
cmp_ok accounts($reply), '<=', 800, '32 large: not more in all';
is scalar(grep { $_->{held} == 3001 && $_->{partial} }
    @{ $reply->{semaphores} }), 32, '32 large: figures of each';

$reply = inspect('32 large, 16 each', \@large, 16);
is scalar(grep { keys %{ $_->{accounts} } == 16 } @{ $reply->{semaphores} }),
    32, 'accounts of each';

$reply = inspect('32 small', \@small, 16);
is accounts($reply), 32 * 16, '32 small: all accounts';
is scalar(grep { !$_->{partial} } @{ $reply->{semaphores} }), 32,
    '32 small: none is partial';
$reply = inspect('fewer accounts', \@small, 15);
is scalar(grep { $_->{partial} && keys %{ $_->{accounts} } == 15 }
    @{ $reply->{semaphores} }), 32, 'one account less: partial';

# a page that has all fields which are no accounts, in a hash of few fields
$one->ask('others', 1);
$redis->cmd('HSET', $state->semaphore_key('others'), scan => '1 0', recall =>
    '1 0', 'x' x 400 => 'x', map { ($_ => '1 3 1 1') } @crowd[0 .. 15]);
$reply = inspect('others', [ 'others' ], 16);
is accounts($reply), 16, 'others in a page: as many accounts';

# fields with colons
$one->ask('colons', 1);
$redis->cmd('HSET', $state->semaphore_key('colons'), 'list:1' => 's1=1',
    "parked:$crowd[0]:1" => '1 7 5', map { ($_ => '1 3 1 1') } @crowd[0 .. 58]);
is partial(inspect('colons', [ 'colons' ], 60)), '60 0 0',
    'colons: all accounts';

# sessions whose tickets a full queue has dropped
my @some = map { $scripts->session("d$_" . 'x' x 60)->enter } 1 .. 39;
my @drops = ('drops', 2, limit => 40, queue => 40, key => 'noisy');
$_->ask('drops', 1, limit => 40) for $one, @some;
$_->ask(@drops) for $one, @some;
$one->ask('drops', 2 + $_, @drops[2 .. 5], cost => 1, key => "k$_") for 1 .. 39;
is scalar(map { @{ $_->sync('drops', limit => 40, fair => 1)->{dropped} } } @some),
    39, 'drops: named to each';
$reply = inspect('drops', [ 'drops' ], 60);
is partial($reply), '40 0 0', 'drops: all accounts';

# lists of the same servers, as if each node missed another one, and of others
pool('alike', 16, map { my $out = $_; [ grep { $_ != $out } 1 .. 64 ] } 1 .. 32);
pool('other', 1000, map { [ 32 * $_ .. 32 * $_ + 31 ] } 0 .. 31);
$reply = inspect('lists alike', [ 'alike' ], 1024);
is partial($reply), '16 64 0', 'lists alike: all servers';
$reply = inspect('other servers', [ 'other' ], 1024);
my ($accounts, $servers, $some) = split / /, partial($reply);
cmp_ok $accounts, '>', 300, 'other servers: many accounts';
cmp_ok $servers, '<', 600, 'some servers';
is $some, 1, 'not all';
$reply = inspect('two pools', [ 'alike', 'other' ], 64);
is partial($reply), '16 64 0', 'two pools: the first as before';
($accounts, $servers, $some) = split / /, partial($reply, 1);
cmp_ok $servers, '>', 300, 'more servers with fewer accounts';
cmp_ok $servers, '<', 800, 'some servers';
is $some, 1, 'not all of the second';

my $read = values_read('names', sub { $one->names(0) });
cmp_ok $read, '>', 256, 'names: many fields';
cmp_ok $read, '<', 1500, 'names: not all';

# fields that are none of ours
$redis->cmd('HSET', $state->semaphore_key('odd'), '.', '9 9 9 9 9 9 9 9 9 9',
    map({ ("parked:$_" => '1 1 1') } @crowd[0 .. 2]), 'x' x 400 . ':0:1' =>
    '1 1 1', $crowd[0] => '1 1 1' . '0' x 400, $crowd[1] => 'x', 'a b:0:1' =>
    '1 5 0', "a\nasks 1:0:1" => '1 6 0', $crowd[2] => '1 2 0');
$redis->cmd('HSET', $state->key, 'a b:0:1' => "1 1 5000 $ends -",
    "a\nasks 1:0:1" => "1 1 5000 $ends -", $crowd[3] => "1 1 5000 $ends" . 0 x 99
    . ' -');
$redis->cmd('HSET', $state->semaphore_key('odd'), $crowd[3] => '1 4 0');
is_deeply [ keys %{ $one->inspect([ 'odd' ])->{semaphores}[0]{accounts} } ],
    [ $crowd[2] ], 'foreign fields left out';

$scripts->done;

# A pool with accounts, a permit each, and these lists.
sub pool {
    my ($name, $accounts, @lists) = @_;
    my @texts = map { join ' ', map { "s$_=20" } @$_ } @lists;
    my %held;
    my @of = map {
        my ($server) = $texts[ $_ % @texts ] =~ /^(\w+)/;
        $held{$server}++;
        sprintf '1 1 0 0 0 0 @%x %s=1', $_ % @texts, $server;
    } 0 .. $accounts - 1;
    $redis->cmd('HSET', $state->semaphore_key($name),
        '.', "$accounts 0 20 1 0 0 0 0 0 0 /1;;"
            . join(',', map { sprintf '%x=9', $_ } 0 .. $#texts) . ';'
            . join(' ', map { "$_=$held{$_}" } sort keys %held),
        map({ (sprintf('list:%x', $_) => $texts[$_]) } 0 .. $#texts),
        map { ($crowd[$_] => $of[$_]) } 0 .. $#of);
}

# Accounts and servers that are shown of one, and 1 if these are not all.
sub partial {
    my $of = $_[0]{semaphores}[ $_[1] // 0 ];
    return join ' ', map({ scalar keys %{ $of->{$_} } } qw/accounts servers/),
        $of->{partial};
}

sub inspect {
    my ($what, $names, $most) = @_;
    my $reply;
    my $read = values_read('inspect', sub {
        $reply = $one->inspect($names, most => $most);
    });
    note "$what: $read values";
    cmp_ok $read, '<', 3500, "$what: few values";
    return $reply;
}

# Values that Redis returns to the calls of a script, in all of its replies.
sub values_read {
    my ($script, $code) = @_;
    my $text = $scripts->source($script);
    local $scripts->{sha}{$script} = $redis->cmd('SCRIPT', 'LOAD',
        <<"EOF_LUA");
local values, real, redis = 0, redis, {}
-- for counts of branches
redis.log, redis.LOG_WARNING = real.log, real.LOG_WARNING
local function count(reply)
    if type(reply) ~= 'table' then values = values + 1 return end
    for i = 1, #reply do count(reply[i]) end
end
for _, name in ipairs { 'call', 'pcall' } do
    redis[name] = function(...)
        local reply = real[name](...)
        count(reply)
        real.call('SET', 'values', values)
        return reply
    end
end
$text
EOF_LUA
    $code->();
    return $redis->cmd('GET', 'values');
}

sub accounts {
    my ($reply) = @_;
    return sum0 map { scalar keys %{ $_->{accounts} } }
        @{ $reply->{semaphores} };
}
