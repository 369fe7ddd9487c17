#!/usr/bin/perl

# Changes of several quiet semaphores in one call: each is executed as by sync.
# One that is not quiet is left as it is, and does not affect the others. No
# call looks at more than the keys of its semaphores.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my ($redis, $state) = ($scripts->redis, $scripts->state);
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

sub keys_of {
    my ($name) = @_;
    my @keys = grep { $redis->cmd('EXISTS', $_) } $state->semaphore_keys($name);
    return @keys ? $scripts->dump(@keys) : '';
}

# figures and accounts, but for times
sub state_of {
    my ($figures, $accounts) = $state->semaphore($_[0]);
    delete @$figures{qw/seq touched tail/};
    return [ $figures, $accounts ];
}

# the same changes by syncs and by sync, to names of their own

my @changes = (
    [ { ask => [ [1] ] }, { ask => [ [2], [3] ], limit => 7 },
        { ask => [ [ 4, 3, -8 ] ], keep => 1 } ],
    [ { release => 1, ask => [ [5] ] }, { release => 1, limit => 7 },
        { release => 2, keep => 1 } ],
    [ {}, { ask => [ [6] ], limit => 8 }, { ask => [ [7] ] } ],
    [ { release => 1 }, { release => 1, ask => [ [8] ], may_set => 0 },
        { release => 1, ask => [ [9], [ 10, 2 ], [11] ], literal => 1 } ],
    [ { ask => [ [12] ] }, { release => 2 }, { release => 4 } ],
);
for my $n (0 .. $#changes) {
    my ($i, @by_sync) = 0;
    my @by_syncs = $one->syncs(map {
        my %arg = (limit => 5, %$_);
        push @by_sync, $one->sync('a' . ++$i, %arg);
        ("b$i", \%arg);
    } @{ $changes[$n] });
    delete $_->{granted} for @by_sync;
    delete $_->{checked} for @by_sync;
    is_deeply \@by_syncs, \@by_sync, "turn $n: replies as of sync";
    is_deeply state_of("b$_"), state_of("a$_"), "turn $n: state as of sync, $_"
        for 1 .. $i;
}
is $state->exists('b2'), 0, 'empty semaphore deleted';
is $state->held('b1'), 1, 'permit counted';

# one of three is not quiet: it is left alone, whatever the reason

my %full = (limit => 2, queue => 5);
my %unusual = (
    'full' => sub { $two->ask('mid', $_, %full) for 1, 2 },
    'contended' => sub { $two->ask('mid', $_, %full) for 1 .. 3 },
    'order' => sub { $scripts->order('mid', 9) },
    'pause' => sub { $scripts->order('mid', undef, 1) },
    'older epoch' => sub {
        $one->ask('mid', 1, %full);
        $state->set_account('mid', $one->name, 0, 1, 0);
    },
    'ended session' => sub {
        $two->ask('mid', 1, %full);
        $scripts->session('dead')->enter->bye;
    },
    'too much released' => sub { $two->ask('mid', 1, %full) },
    'wrong type' => sub {
        $redis->cmd('SET', $state->semaphore_key('mid'), 'foreign') },
    'lower limit elsewhere' => sub {
        $redis->cmd('HSET', $state->key, 'limit:mid', '1 c1;') },
    'class out of range' => sub { },
);
my %arg = (
    'too much released' => { release => 1 },
    'lower limit elsewhere' => { literal => 1, asks_node => 1 },
    'class out of range' => { ask => [ [ 9, 1, 9 ] ] },
);
for my $what (sort keys %unusual) {
    $unusual{$what}->();
    my $mid = keys_of('mid');
    my ($left, $middle, $right) = $one->syncs(
        left => { limit => 4, ask => [ [1] ] },
        mid => { limit => 2, ask => [ [ 2, 1, 0, 5 ] ], %{ $arg{$what} // {} } },
        right => { limit => 4, ask => [ [3] ], keep => 1 });
    is $middle, undef, "$what: left alone";
    is keys_of('mid'), $mid, "$what: nothing written";
    is $left->{asked}{1}{verdict}, 'granted', "$what: executed before it";
    is $right->{asked}{3}{verdict}, 'granted', "$what: executed behind it";
    is_deeply [ $left->{in_use}, $right->{in_use} ], [ 1, 1 ],
        "$what: their counts";
    is_deeply [ map { $state->held($_) } qw/left right/ ], [ 1, 1 ],
        "$what: counted";
    $one->syncs(left => { release => 1 }, right => { release => 1 });
    $redis->cmd('DEL', $state->semaphore_keys('mid'));
    $redis->cmd('HDEL', $state->key, 'order:mid', 'limit:mid');
}

# all are left alone: unknown session, epoch or generation, recovery

my $stranger = $scripts->session('stranger');
@$stranger{qw/epoch gen/} = (1, $one->gen);
my %alien = (
    'unknown session' => [ $stranger ],
    'older epoch' => [ $one, epoch => 0 ],
    'another generation' => [ $one, gen => $one->gen + 1 ],
);
for my $what (sort keys %alien) {
    my ($session, %part) = @{ $alien{$what} };
    local @$session{ keys %part } = values %part;
    my $before = $scripts->dump;
    is_deeply [ $session->syncs(map { $_ => { ask => [ [1] ] } } qw/x y/) ],
        [ undef, undef ], "$what: left alone";
    is $scripts->dump, $before, "$what: nothing written";
}
my $until = $state->shard('recover_until');
$state->set_shard(recover_until => $state->shard('clock') + 1000);
is_deeply [ $one->syncs(x => {}, y => { ask => [ [1] ] }) ], [ undef, undef ],
    'recovering: left alone';
$state->set_shard(recover_until => $until);

# an hour after it was set last

my ($e) = $one->syncs(e => { ask => [ [1], [2] ], limit => 5 });
is $e->{in_use}, 2, 'begun by a part';
my $expiry = sub { $scripts->redis->cmd(PTTL => $state->semaphore_key('e')) };
$scripts->redis->cmd(PEXPIRE => $state->semaphore_key('e'), 5000);
$state->set_shard(clock => $state->shard('clock') + 3_600_000);
($e) = $one->syncs(e => { release => 1, limit => 5 });
is $e, undef, 'expiry left to sync';
$one->sync('e', release => 1, limit => 5);
cmp_ok $expiry->(), '>', 1e9, 'and set there';
($e) = $one->syncs(e => { ask => [ [3] ], limit => 5 });
is $e->{in_use}, 2, 'a part again';

# sixteen at most, and no command that is not of a semaphore

my @sixteen = map { ("c$_" => { limit => 5, ask => [ [1] ], keep => 1 }) }
    1 .. 16;
my @reply;
my $calls = $scripts->calls(sub { @reply = $one->syncs(@sixteen) });
is scalar(grep { $_ && $_->{asked}{1}{verdict} eq 'granted' } @reply), 16,
    'sixteen executed';
is $calls->{hmget}, 17, 'shard read once';
cmp_ok $calls->{all}, '<=', 17 + 16 * 4, 'new: few commands';
$calls = $scripts->calls(sub {
    $one->syncs(map { ref ? { %$_, release => 1, ask => [ [2], [3] ] } : $_ }
        @sixteen) });
is $calls->{all}, 17 + 16, 'two commands for each';

my $before = $scripts->dump;
eval { $one->syncs(@sixteen, c17 => {}) };
like $@, qr/DSEM keys are not those of 1 to 16/, 'seventeen refused';
eval { $one->syncs() };
like $@, qr/DSEM keys are not those of 1 to 16/, 'none refused';
is $scripts->dump, $before, 'nothing written';

$scripts->done;
