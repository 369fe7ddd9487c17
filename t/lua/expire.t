#!/usr/bin/perl

# A semaphore that is untouched for a day is garbage. One in use is touched
# once an hour, whatever the commands are.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter;
my $redis = $scripts->redis;
my @keys = $scripts->state->semaphore_keys('api');

sub ttl { return join ' ', map { int $redis->cmd('PTTL', $_) / 60000 } @_ }
sub near_a_day { return ttl(@_) =~ /^(1439|1440)( (1439|1440))*$/ }

$one->ask('api', 1);
ok near_a_day($keys[0]), 'expires after a day';
$one->ask('api', 2);
ok near_a_day(@keys), 'queue expires too';

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
    $use->();
    ok near_a_day(@keys), "$name: one renewal an hour";
}

# the clock was lost
$scripts->redis->cmd('FLUSHALL');
$one = $scripts->session('two')->enter;
$scripts->state->set_figure('api', touched => 1e12);
$one->ask('api', 1);
ok near_a_day($keys[0]), 'clock set back';

# keys that never expire
$scripts->order('api', 1);
my %shard = $scripts->state->shard_keys;
is $redis->cmd('PTTL', $shard{$_}), -1, "$_ stays" for sort keys %shard;

$scripts->done;
