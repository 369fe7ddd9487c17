#!/usr/bin/perl

# Single fields of the shard are lost, or were never there: commands go on
# without them.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->configured('a20', { api => 20 })->listen;

sub lose {
    is $scripts->redis->cmd('HDEL', $state->key, @_), scalar @_, "@_: lost";
}

# of a session whose lease expires
my $gone = $scripts->session('gone')->enter;
lose($gone->name);
$scripts->pass(6000, $one);
is_deeply [ $state->sessions ], [ $one->name ], 'session removed';
is $one->beat->{live}, 1, 'and not counted';

# the leases of all sessions, with that of one that expires, or is the longest
$gone = $scripts->session('gone')->enter;
lose('leases', $gone->name);
is $one->beat->{longest}, $scripts->lease, 'leases lost: the own one';
$scripts->pass(6000, $one);
is_deeply [ $state->sessions ], [ $one->name ], 'session removed';
is $state->shard('leases'), '', 'no lease counted';
$one->enter(config => 'a20');
$one->ask('queue', 1, limit => 1);
$one->ask('queue', 2, limit => 1);
lose('leases');
$state->delete_queue('queue');
is $one->sync('queue', release => 1)->{status}, 'resync', 'and a queue';
my ($clock, $until) = $state->shard(qw/clock recover_until/);
is $until - $clock, $scripts->lease, 'recovers for the own lease';
$state->delete_semaphore('queue');
$state->set_shard(recover_until => 0);
$one->enter(config => 'a20');

# of a removed session
$gone = $scripts->session('logged')->enter;
$gone->ask('api', 1, limit => 1);
$one->bye($gone);
lose('ended:' . $state->shard('ended'));
is $one->ask('api', 2, limit => 1), 'queued', 'no account found';
is $state->figure('api', 'seen'), $state->shard('ended'), 'not looked for again';
$one->sync('api', cancel => [ [2] ]);

my $bar = $state->shard('last_bar');
lose("bar:$bar");
$scripts->advance(6000);
$one->beat;
is $state->shard('first_bar'), 0, 'no bar counted';

# of a configuration
my @fields = $state->limit_fields;
my $two = $scripts->session('two')->configured('a10', { api => 10 });
lose('config:a10');
$one->sync('api', limit => 20, literal => 1, asks_node => 1);
is_deeply [ grep { /^limit/ } $one->messages ], [], 'no node told';
$two->bye;
lose('names:a10/0', 'limit:api');

$two = $scripts->session('two')->configured('a11', { api => 10 });
lose('limit:api');
$two->bye;
is_deeply [ $state->limit_fields ], [ grep { $_ ne 'limit:api' } @fields ],
    'limit lost: rest withdrawn';

$two = $scripts->session('two')->configured('a12', { api => 10 });
lose('names:a12/0');
$two->bye;
is_deeply [ $state->limit_fields ], \@fields, 'names lost: rest withdrawn';

# of limit=auto: bounds stay as they are, or nothing is left to withdraw
$two = $scripts->session('two')->configured('a14', { auto => '20=2-30' });
my $others = $scripts->session('others')->configured('a15',
    { auto => '5=1-9' });
lose('bounds:auto');
$others->bye;
is_deeply [ $state->limits('auto') ], [ [ 9, 'a14' ] ],
    'bounds lost: number stays';
$two->bye;
is_deeply [ $state->limit_fields ], \@fields, 'bounds lost: rest withdrawn';
$two = $scripts->session('two')->configured('a16', { auto => '20=2-30' });
lose('limit:auto');
$two->bye;
is_deeply [ $state->limit_fields ], \@fields, 'number lost: rest withdrawn';

my %limits = map { ("n$_" => 3) } 1 .. 40;
$scripts->session('three')->configured('a13', \%limits, 1) for 1, 2;
lose('config:a13');
$scripts->session('four')->configured('a13', \%limits, 1);
$scripts->advance(6000);
$one->enter(config => 'a20');
$one->beat;
is $state->shard('leaving'), 'a13', 'configuration lost: leaves once';
$one->beat;
is_deeply [ $state->limit_fields ], \@fields, 'configuration lost: withdrawn';

# of the census
my $old = $scripts->session('old');
$scripts->redis->cmd('FLUSHALL');
cmp_ok $old->hello(gen => 99, told => 2, age => 100)->{recovery}, '>', 0,
    'state recovers';
lose('census');
cmp_ok $old->declared->{recovery}, '>', 0, 'recovery goes on';
$old->enter(restarted => 1, told => 1);
is $old->ask('api', 1), 'granted', 'a new census ends it';
