#!/usr/bin/perl

# A key of the wrong type: a semaphore's own key affects that semaphore only, a
# key of the shard is an error. Nothing is written in either case.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $redis = $scripts->redis;

sub unclocked { return $scripts->dump =~ s/ \.=2 \d+ \K\d+ \d+//r }

# the HASH of the semaphore, and its queue
my %key;
@key{qw/semaphore queue/} = $scripts->state->semaphore_keys('api');
for my $part (qw/semaphore queue/) {
    my $key = $key{$part};
    $one->ask('api', 1);
    $one->ask('api', 2);
    $one->ask('web', 1);
    $redis->cmd('SET', $key, 'foreign');
    my $before = $scripts->dump;

    is $one->ask('api', 3), 'broken', "$part: ask";
    is $one->sync('api', release => 1, cancel => [ [2] ])->{status}, 'broken',
        "$part: release and cancel";
    is $one->sync('api', release => 1)->{status}, 'broken', "$part: release";
    is $one->declare('api', held => 1, tickets => [ [ 2, 1, 9 ] ])->{status},
        'broken', "$part: declare";
    is $scripts->dump, $before, "$part: nothing written";
    is $one->sync('web', release => 1)->{status}, 'ok', "$part: others go on";

    $redis->cmd('DEL', values %key);
    is $one->ask('api', 4), 'granted', "$part: mended";
    $one->sync('api', release => 1);
}

# tickets of a removed session leave the queue, the only ones that are not parked
my ($dead, $silent) = map { $scripts->session($_)->enter } qw/dead silent/;
$one->ask('api', 5);
$_->ask('api', 1) for $dead, $silent;
$scripts->pass(3000, $one);
$one->ask('api', 6);
$one->sync('api', release => 1);
$one->bye($dead);
$redis->cmd('SET', $key{queue}, 'foreign');
my $before = $scripts->dump;
is $one->order('api', '=', '=')->{status}, 'broken', 'queue: order';
is $one->sync('api')->{status}, 'broken', 'queue: sync';
is $scripts->dump, $before, 'queue: nothing written';
$redis->cmd('DEL', values %key);

# the keys of the shard
$one->ask('api', 1);
$one->ask('api', 2);
%key = $scripts->state->shard_keys;
for my $part (sort keys %key) {
    my $key = $key{$part};
    $redis->cmd('RENAME', $key, 'kept') if $redis->cmd('EXISTS', $key);
    $redis->cmd('SET', $key, 'foreign');
    my $before = unclocked();

    my %call = (
        sync => sub { $one->sync('api', release => 1, cancel => [ [2] ],
            ask => [ [3] ]) },
        declare => sub { $one->declare('api', held => 3) },
        declared => sub { $one->declared },
        hello => sub { $one->hello(epoch => 2) },
        beat => sub { $one->beat },
        bye => sub { $one->bye },
    );
    delete @call{qw/sync declare declared/} if $part eq 'sessions';

    for my $script (sort keys %call) {
        eval { $call{$script}->() };
        like $@, qr/WRONGTYPE/, "$part: $script refused";
        $one->{epoch} = 1;
    }
    is unclocked(), $before, "$part: nothing written";
    $redis->cmd('DEL', $key);
    $redis->cmd('RENAME', 'kept', $key) if $redis->cmd('EXISTS', 'kept');
}
