#!/usr/bin/perl

# Orders outlive a shard that lost its head or its index, unless it has more
# fields than one call looks at.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $redis = $scripts->redis;
my %shard = $state->shard_keys;

# before the first session
$scripts->order('api', 7);
my $one = $scripts->session('one')->enter;
is $one->ask('api', 1), 'granted', 'first session';
is $one->{asked}{limit}, 7, 'order given before it applies';

for my $loss (sub { $redis->cmd('DEL', $shard{sessions}) },
    sub { $state->drop_generation })
{
    $loss->();
    cmp_ok $one->hello->{recovery}, '>', 0, 'state recovers';
    $one->declared;
    is $one->sync('api')->{limit}, 7, 'order kept';
}

# too many fields
$one->bye($scripts->session('gone')) for 1 .. 600;
$redis->cmd('DEL', $shard{sessions});
cmp_ok $one->hello->{recovery}, '>', 0, 'state recovers';
is $state->ordered('api'), undef, 'order forgotten';
is $redis->cmd('HLEN', $shard{shard}) < 20, 1, 'all else, too';
