#!/usr/bin/perl

# A node starts when the master of a shard has just been lost, while another one
# uses all permits of a semaphore in it. It is connected to the rest of the fleet,
# so it admits none for a lease; then its share.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

# a literal name in the second shard
my ($name) = grep { Dsem::State::shard_of($_) == 1 } 'a' .. 'z';
my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 500ms;
dsem_lease 5s;
dsem_reuse off;
add_header X-Status \$dsem_status always;
location / {
    dsem $name limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $first = $t->node('n1', $conf);
my $master = $cluster->at($name)->owner;

my @held = map { $first->begin('/?hang=1') } 1 .. $LIMIT;
eventually { $up->now == $LIMIT } 'all permits are in use';
$master->freeze;

my $second = $t->node('n2', $conf);
eventually { $second->grep_log(qr/connected to redis/) } 'in another shard';
eventually { $second->grep_log(qr/redis \S+ unavailable/) } 'not in this one';
my @asked = map { $second->begin('/?hang=1') } 1 .. $LIMIT;
eventually { $up->now == 2 * $LIMIT || @asked == grep { $_->done } @asked }
    'all its requests decided';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
is $_->wait->header('X-Status'), 'REJECTED', 'no share' for @asked;

$up->release_all;
$_->wait for @held;
eventually { $second->get('/?t=1')->header('X-Status') eq 'DEGRADED' }
    'a share after the lease', 20;

$master->thaw;
eventually { $second->get('/?t=1')->header('X-Status') eq 'PASSED' }
    'available again', 20;

$t->done;
