#!/usr/bin/perl

# Dead tickets are dropped from the end of the queue, too: behind new keys, or a
# better class, they would stay for ever, and their key would pay for them.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $n = 0;

# Session two has so many tickets of a key in the queue of a name, and is gone.
sub left_behind {
    my ($name, $count, @ticket) = @_;
    my $two = $scripts->session('two')->enter;
    $two->sync($name, fair => 1,
        ask => [ map { [ $_, 1, @ticket ] } 1 .. $count ]);
    $one->bye($two);
}

sub dead { return $scripts->queue($_[0]) - $state->waiting($_[0]) }

# a worker calls again while there is more
sub go_on {
    my ($name) = @_;
    for (1 .. 20) { last if !$one->sync($name, fair => 1)->{more} }
}

sub tag { return ($state->tags($_[0]))[0]{ $_[1] } }

# requests of new keys come before them
sub new_keys {
    my ($name, $count) = @_;
    $one->sync($name, release => 1,
        ask => [ [ ++$n, 1, 0, 1000, 1000, "k$n" ] ]) for 1 .. $count;
}

my @noisy = (0, 1000, 1000, 'noisy');
$one->ask('api', ++$n, key => "k$_") for 0 .. 5;
for (1 .. 3) {
    left_behind('api', 200, @noisy);
    new_keys('api', 1);
    go_on('api');
    is dead('api'), 0, 'dead tickets dropped';
}
$one->ask('api', ++$n, key => 'noisy', queue => 1000);
cmp_ok $one->{asked}{asked}{$n}{position}, '<=', 12, 'their key does not pay';

# a bounded part by one call, which serves the queue, too
left_behind('api', 500, @noisy);
my $reply = $one->sync('api', release => 1, fair => 1);
is_deeply [ scalar @{ $reply->{granted} }, $reply->{more} ], [ 1, 1 ],
    'served meanwhile';
cmp_ok dead('api'), '>', 400, 'some per call';

# between live ones: the key of a live one behind them still pays for that
my $three = $scripts->session('three')->enter;
my $two = $scripts->session('two')->enter;
$one->ask('web', ++$n, key => 'x');
$one->ask('web', ++$n, key => "k$_") for 1 .. 5;
for (1 .. 5) {
    $two->ask('web', $_, key => 'noisy', queue => 100);
    $three->ask('web', $_, key => 'other', queue => 100);
    $three->ask('web', 10 + $_, key => 'noisy', queue => 100) if $_ == 3;
}
my $place = $three->{asked}{asked}{13};
my $F = tag('web', 'noisy');
$one->bye($two);
$one->sync('web', fair => 1);
is dead('web'), 0, 'dropped between live ones';
is tag('web', 'noisy'), $F - 16000, 'two behind the live one given back';

# a better class, without keys
$one->ask('cpu', ++$n);
$one->ask('cpu', ++$n, queue => 1000) for 1 .. 5;
left_behind('cpu', 100, 1, 1000);
$one->sync('cpu', release => 1, ask => [ [ ++$n ] ]);
go_on('cpu');
is dead('cpu'), 0, 'behind a better class';

# live ones behind them leave, as their requests have timed out
my @many = map { [ 100 + $_, 1, @noisy ] } 1 .. 40;
$one->ask('old', ++$n, key => 'x');
$one->ask('old', ++$n, key => "k$_") for 1 .. 5;
$two = $scripts->session('two')->enter;
$two->sync('old', ask => [ map { [ $_, 1, @noisy ] } 1 .. 40 ]);
$three->sync('old', ask => \@many);
$one->bye($two);
go_on('old');
is dead('old'), 40, 'too many live ones behind them';
$three->sync('old', cancel => [ map { [ $_->[0], 1, 1000, 'noisy' ] } @many ]);
go_on('old');
is dead('old'), 0, 'dropped when these have left';

# a command without keys knows no tags: it leaves those with keys
left_behind('old', 5, @noisy);
$one->sync('old');
is dead('old'), 5, 'left by a command without keys';
$one->sync('old', cancel => [ [ 999, 1, 1000, 'y' ] ]);
is dead('old'), 0, 'dropped by one with keys';

# while the state recovers their sessions may come back
left_behind('old', 5, @noisy);
$state->set_shard(recover_until => 1000 + $state->shard('clock'));
$one->sync('old', fair => 1);
is dead('old'), 5, 'left while the state recovers';
$scripts->pass(1000, $one, $three);
go_on('old');
is dead('old'), 0, 'dropped after the recovery';

# the end is seen first by a command that does not look at the queue's end
for (
    [ order => sub { $one->order('old', '=', '=') } ],
    [ adjust => sub { $one->adjust('old') } ],
    [ declare => sub {
        my $four = $scripts->session('four');
        $four->hello;
        $four->declare('old');
        $four->declared;
    } ],
) {
    my ($command, $run) = @$_;
    left_behind('old', 5, @noisy);
    $run->();
    go_on('old');
    is dead('old'), 0, "dropped after $command";
}

# or by a sync that reads so many accounts that it may read no tickets
$_->ask('wide', 1, limit => 65)
    for $one, map { $scripts->session("m$_")->enter } 1 .. 64;
$one->ask('wide', ++$n, key => "k$_", limit => 65) for 0 .. 5;
left_behind('wide', 5, @noisy);
$state->set_figure('wide', seen => $state->figure('wide', 'seen') - 600);
my $accounts = $scripts->calls(sub { $one->sync('wide', fair => 1) });
is $accounts->{hscan}, 1, 'a look at all accounts';
is $state->figure('wide', 'waiting'), 6, 'all in one call';
go_on('wide');
is dead('wide'), 0, 'dropped by the next one';

# a lost marker, and no ticket but foreign ones that are parked
$two = $scripts->session('two')->enter;
$one->ask('park', ++$n);
$two->sync('park', ask => [ map { [ $_, 1, 0, 99 ] } 1 .. 5 ]);
$scripts->pass(2500, $one, $three);
$one->sync('park', release => 1);
is $state->figure('park', 'parked'), 5, 'parked tickets';
$one->bye($two);
$scripts->redis->cmd('ZREM', $state->queue_key('park'), 'queue');
$scripts->redis->cmd('ZADD', $state->queue_key('park'), 10 ** 15 + $_,
    "gone:0:ff 1 $_ 1") for 1 .. 3;
$one->ask('park', ++$n);
is $state->waiting('park'), 0, 'gone with their session';

# a key of the wrong type
left_behind('old', 5, @noisy);
$scripts->redis->cmd('SET', $state->queue_key('old'), 'x');
is $one->sync('old', release => 1, fair => 1)->{status}, 'broken',
    'a broken queue';
