#!/usr/bin/perl

# A semaphore that is untouched for 30 days is garbage. One in use is touched
# once an hour, whatever the commands are.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $redis = $scripts->redis;
my @keys = $scripts->state->semaphore_keys('api');

sub ttl { return join ' ', map { int $redis->cmd('PTTL', $_) / 60000 } @_ }
sub renewed { return ttl(@_) =~ /^(43199|43200)( (43199|43200))*$/ }

$one->ask('api', 1);
ok renewed($keys[0]), 'expires after 30 days';
$one->ask('api', 2);
ok renewed(@keys), 'queue expires too';

$one->ask('burst', 1);
$one->sync('burst', ask => [ map { [ $_, 1, 0, 1, 1000, 'a' ] } 2, 3 ]);
ok renewed($scripts->state->queue_key('burst')), 'one that begins full, too';

# another one's key where the queue would be
my $foreign = $scripts->state->queue_key('foreign');
$one->ask('foreign', 1);
$redis->cmd('SET', $foreign, 'text');
$one->sync('foreign', ask => [ map { [ $_, 1, 0, 1, 1000, 'a' ] } 2, 3 ]);
is $redis->cmd('PTTL', $foreign), -1, 'no expiry for what is none';

for (
    [ 'refused asks' => sub { $one->ask('api', 3, queue => 0) } ],
    [ 'checks' => sub { $one->sync('api', check => [ [2] ]) } ],
    [ 'cancels' => sub { $one->sync('api', cancel => [ [4] ]) } ],
    [ 'releases' => sub { $one->sync('api', release => 1) } ],
    [ 'declares' => sub {
        $one->hello;
        $one->declare('api', held => 1, tickets => [ [ 9, 1, 99 ] ]);
        $one->declared;
    } ],
) {
    my ($name, $use) = @$_;
    $one->ask('api', 5) for 1 .. 2;
    $redis->cmd('PEXPIRE', $_, 3600000) for @keys;
    $scripts->advance(1800000);
    $one->beat;
    $use->();
    cmp_ok ttl($keys[0]), '<=', 60, "$name: no renewal every time";
    $one->ask('api', 6);
    $scripts->advance(1800001);
    $one->beat;
    # on the usual paths, one call in ten looks
    $one->{number} += 9 - $one->{number} % 10;
    $use->();
    ok renewed(@keys), "$name: one renewal an hour";
}

# the clock was lost
$scripts->redis->cmd('FLUSHALL');
$one = $scripts->session('two')->enter;
$one->ask('api', 1, limit => 2);
$scripts->state->set_figure('api', touched => 1e12);
$redis->cmd('PEXPIRE', $keys[0], 3600000);
$one->ask('api', 2);
ok renewed($keys[0]), 'clock set back';

# keys that never expire
$scripts->order('api', 1);
my %shard = $scripts->state->shard_keys;
is $redis->cmd('PTTL', $shard{$_}), -1, "$_ stays" for sort keys %shard;
