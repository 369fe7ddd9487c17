#!/usr/bin/perl

# State of limit=auto that was lost, is of another type or of another clock;
# malformed arguments; nothing moves while the state recovers.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->configured('a', { api => '10=1-1000' });
my $key = $state->auto_key('api');

# its key alone: goes on with the number in force
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ]);
$auto->until(sub { $_[0]{found} > 20 }, 30);
my $found = $auto->found;
$redis->cmd('DEL', $key);
my $reply = $one->adjust('api');
is "@$reply{qw/found reason floor/}", "$found none 0", 'key lost: same number';
is $redis->cmd('TTL', $key), 30 * 86400, 'kept again';

# cut short, or none of ours
for my $text ('1 2 3', 'x', '', '1 ' x 90) {
    $redis->cmd('HSET', $key, '.', $text);
    is $one->adjust('api')->{found}, $found, "'" . substr($text, 0, 5)
        . "': begins anew";
}
$redis->cmd('DEL', $key);
$redis->cmd('SET', $key, 'foreign');
is $one->adjust('api')->{status}, 'broken', 'wrong type: broken';
is_deeply $one->inspect([ 'api' ])->{semaphores}[0]{auto}, undef,
    'and not shown';
$redis->cmd('DEL', $key);
for my $which (qw/semaphore_key queue_key/) {
    my $other = $state->$which('api');
    $one->ask('api', $_, literal => 1, queue => 9) for 1 .. $found + 1;
    $redis->cmd('RENAME', $other, 'kept');
    $redis->cmd('SET', $other, 'foreign');
    $redis->cmd('HSET', $state->key, 'limit:api', '500=1-1000 a;');
    $redis->cmd('DEL', $key);
    is $one->adjust('api')->{status}, 'broken', "$which of the wrong type";
    $redis->cmd('HSET', $state->key, 'limit:api', "$found=1-1000 a;");
    $redis->cmd('DEL', $other);
    $redis->cmd('RENAME', 'kept', $other);
}
$state->delete_queue('api');
$one->sync('api', release => 1) if $state->held('api') > $found;
is $one->adjust('api', found => 1)->{status}, 'ok', 'queue lost, not needed';
$redis->cmd('HSET', $state->key, 'limit:api', '500=1-1000 a;');
$redis->cmd('DEL', $key);
is $one->adjust('api')->{status}, 'resync', 'queue lost and needed: resync';
ok $state->recovering, 'state recovers';

# nothing moves while it does
$redis->cmd('FLUSHALL');
$one = $scripts->session('other')->configured('a', { api => '10=1-1000' });
$scripts->meta(recover_until => $scripts->meta('clock') + 60_000);
$auto = Dsem::Auto->new($scripts, 'api', [ $one ]);
$reply = $auto->run(5);
is "@$reply{qw/found limit reason next/}", '10 10 none 1000',
    'recovering: nothing moves';
is $redis->cmd('EXISTS', $key), 0, 'nothing kept';
$scripts->meta(recover_until => 0);

# a clock that was lost: left over from a later one
$auto->run(10);
my @field = split ' ', $redis->cmd('HGET', $key, '.');
$scripts->meta(clock => 1000);
$found = $auto->found;
$reply = $one->adjust('api');
is "@$reply{qw/found reason/}", "$found none", 'other clock: begins anew';
ok $auto->until(sub { $_[0]{reason} ne 'none' }, 10), 'and goes on';

# all of it: the first to state a number may have been told one long ago, or
# none; a session that sends samples was told the last one
$redis->cmd('FLUSHALL');
$one = $scripts->session('stale')->configured('a', { api => '10=1-1000' });
my $told = $scripts->session('told')->configured('a', { api => '80=1-1000' });
is $one->adjust('api', found => 0)->{found}, 10, 'stated first';
$redis->cmd('DEL', $key);
$reply = $told->adjust('api', found => 80);
is "@$reply{qw/found limit kept/}", '80 80 80', 'the number told before';
is $told->sync('api', literal => 1)->{limit}, 80, 'in force';
is $one->adjust('api', found => 200)->{found}, 80, 'begun: no other number';

# a probe is not told as the limit to begin with
$auto = Dsem::Auto->new($scripts, 'api', [ $told ]);
$reply = $auto->until(sub { $_[0]{found} < $_[0]{kept} }, 30);
ok $reply, 'a probe';
is $reply->{kept}, $found = [ $auto->trace ]->[-2], 'limit without it';
is $reply->{limit}, $reply->{found}, 'in force: with it';

# with a name that has no literal limit: the number that the session knows
is $one->adjust('tenant', found => 7)->{found}, 7, 'number of the session';
is $one->adjust('other', min => 4)->{found}, 4, 'none known: the minimum';
is $one->adjust('large', found => 70, max => 8)->{found}, 8, 'within bounds';
$one->ask('stored', 1, limit => 3, may_set => 0);
is $one->adjust('stored')->{found}, 3, 'that of the semaphore';
my $stored = Dsem::Auto->new($scripts, 'stored', [ $one ]);
ok $stored->until(sub { $_[0]{found} > 3 }, 30), 'raised';
is $state->figure('stored', 'limit'), ($stored->trace)[-1], 'stored';
is $one->sync('stored', limit => 9, may_set => 0)->{limit},
    ($stored->trace)[-1], 'in force';
is $redis->cmd('HGET', $state->key, 'limit:stored'), undef, 'no field';

# arguments: all are checked before the first write
my $before = $scripts->dump;
my @good = ($one->name, join(' ', $one->epoch, 1, $one->gen, 1, 9, 0), 'api',
    '1 1000 0 1 100 7000 49000 0 0 1000');
for (
    [ 1, 'no session' ], [ 2, '0 1 1 1 9 0' ], [ 2, '1 1 1 0 9 0' ],
    [ 2, '1 1 1 9 8 0' ], [ 2, '1 1 1 1 1000001 0' ], [ 2, '1 1 1 1 9' ],
    [ 2, 'x' ], [ 2, '1 1 99999999999999999999 1 9 0' ], [ 3, 'a b' ],
    [ 3, '' ], [ 4, '1 1000 0 1 100 7000 49000 0 1000' ],
    [ 4, '1 1000 2 1 100 7000 49000 0 0 1000' ],
    [ 4, '1000001 1000 0 1 100 7000 49000 0 0 1000' ],
    [ 4, '1 1000 0 1 3600001 7000 49000 0 0 1000' ],
    [ 4, '0 1000 0 1 100 0 0 0 0 1000' ],
    [ 4, '1 -1 0 1 100 7000 49000 0 0 1000' ],
    [ 4, '1 1000 0 1 100 25001 49000 0 0 1000' ],
    [ 4, '1 1000 0 1 100 7000 625001 0 0 1000' ],
    [ 4, '1 1000 0 1 100 7000 49000 250001 0 1000' ],
    [ 4, '1 1000 0 1 100 7000 49000 0 250001 1000' ],
    [ 4, '1 1000 0 1 100 7000 49000 0 0 1000000001' ],
) {
    my ($i, $text) = @$_;
    my @argv = @good;
    $argv[$i - 1] = $text;
    is eval { $scripts->run('adjust', [ $scripts->keys_of('adjust', 'api') ],
        @argv) }, undef, "argument $i: '$text'";
    like $@, qr/DSEM argument $i /, 'named';
}
is $scripts->dump, $before, 'nothing written';
