#!/usr/bin/perl

# inspect replies the state of limit=auto and its last changes.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my $one = $scripts->session('one')->configured('a', { api => '10=2-500',
    lit => 4 });

is_deeply [ map { $_->{auto} } @{ $one->inspect([qw/api lit none/])
    ->{semaphores} } ], [ undef, undef, undef ], 'no sample: nothing';
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ], beats => [ $one ]);
my $reply = $auto->step;
my $of = inspect();
is_deeply $of->{auto}, { min => 2, max => 500, found => 10, reason => 0,
    floor => 0, latency => 0 }, 'first sample';
is $of->{history}, undef, 'no change yet';

# each limit after the first ones is the double, so there are many changes
$auto->until(sub { $_[0]{kept} > 20 }, 10);
$reply = $auto->run(3);
$of = inspect();
is_deeply [ @{ $of->{auto} }{qw/found floor latency/} ],
    [ @$reply{qw/found floor latency/} ], 'as the last reply';
my @history = @{ $of->{history} };
cmp_ok @history, '<=', 4, 'changes of a second are one';
cmp_ok @history, '>=', 2, 'changes';
is $history[-1][1], $reply->{kept}, 'the last change of what is found';
cmp_ok $history[-1][0], '<', 2000, 'and its age';
cmp_ok $history[0][0], '>', $history[-1][0], 'the oldest first';
is_deeply [ @$of{qw/limit configured ordered/} ],
    [ $reply->{found}, $reply->{found}, '-' ], 'limit in force';
is_deeply $of->{asks}, [], 'no other limit';

# no more than the last 60; the next one is not soon after them
my @field = split ' ', $redis->cmd('HGET', $state->auto_key('api'), '.');
@field[6, 7] = (60, 0);
$redis->cmd('HSET', $state->auto_key('api'), '.', "@field", 'history',
    ' 1 2 3' x 60);
$auto->set(latency => sub { 5 * $_[0] });
ok $auto->until(sub { inspect()->{history}[-1][1] != 2 }, 30), 'one more';
$of = inspect();
is @{ $of->{history} }, 60, 'last 60 changes';
is_deeply [ sort { $b <=> $a } map { $_->[0] } @{ $of->{history} } ],
    [ map { $_->[0] } @{ $of->{history} } ], 'in order';

# fields that are none of ours
for ([ 'a change soon after', sub { 5 * $_[0] }, 5, 10 ** 15 ],
    [ 'one more than are kept', sub { 50 }, 60, 0 ])
{
    my ($what, $latency, @changes) = @$_;
    $auto->set(latency => $latency);
    @field = split ' ', $redis->cmd('HGET', $state->auto_key('api'), '.');
    @field[6, 7] = @changes;
    $redis->cmd('HSET', $state->auto_key('api'), '.', "@field",
        'history', 'x');
    $auto->until(sub { @{ inspect()->{history} // [] } }, 60);
    is @{ inspect()->{history} }, 1, "another text, and $what: begins anew";
}
$redis->cmd('HSET', $state->auto_key('api'), 'history', " 1 2 3\nasks 1");
is inspect()->{history}, undef, 'malformed changes left out';
$redis->cmd('HSET', $state->auto_key('api'), 'history', ' 1 2 3' x 500);
is inspect()->{history}, undef, 'too many left out';
$auto->set(latency => sub { 5 * $_[0] });
$auto->until(sub { inspect()->{history} }, 60);
is @{ inspect()->{history} }, 1, 'a new history';
$auto->set(latency => sub { 50 });
$redis->cmd('HDEL', $state->auto_key('api'), 'history');
is inspect()->{history}, undef, 'lost history';
$auto->until(sub { inspect()->{history} }, 60);
is @{ inspect()->{history} }, 1, 'begins anew';
$redis->cmd('HSET', $state->auto_key('api'), '.', 'x');
is inspect()->{auto}, undef, 'malformed state: nothing';

# of several names, with accounts and other limits
my $two = $scripts->session('two')->configured('b', { api => 700 });
$one->ask('api', 1, literal => 1);
$one->ask('lit', 1, literal => 1);
$redis->cmd('DEL', $state->auto_key('api'));
$auto->step;
my @all = @{ $one->inspect([qw/lit api none/])->{semaphores} };
is_deeply [ map { $_->{name} } @all ], [qw/lit api none/], 'all names';
is_deeply [ map { defined $_->{auto} ? 1 : 0 } @all ], [ 0, 1, 0 ], 'of one';
is_deeply [ map { scalar keys %{ $_->{accounts} } } @all ], [ 1, 1, 0 ],
    'accounts';
is_deeply $all[1]{asks}, [ [ 700, 'two' ] ], 'the other limit';

# the configuration with limit=auto has gone
$one->configured('c', { api => 700 });
$one->beat;
is inspect()->{auto}, undef, 'limit=auto of no configuration: nothing';
$one->configured('a', { api => '10=2-500', lit => 4 });
is inspect()->{auto}{max}, 500, 'back again';

$scripts->done;

sub inspect { return $one->inspect([ 'api' ])->{semaphores}[0] }
