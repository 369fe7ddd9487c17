#!/usr/bin/perl

# A worker comes into a shard that has lost its state, and in which another worker
# of the node was since both have started. It knows the lost generation by that
# one, so that no permit is granted until the other has declared its own.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my ($node) = $t->fleet(1, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%REDIS%% mode=cluster;
dsem_lease 10s;
dsem_reuse off;
location / {
    dsem "$arg_n" limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my ($one, $other) = $node->workers;

# in the second shard
my ($name) = grep { Dsem::State::shard_of($_) == 1 } 'a' .. 'z';
my $master = $cluster->at($name)->owner;
my $state = Dsem::State->new($cluster->at($name));

# of two workers that run each may accept
$node->freeze($other);
my $held = $node->begin("/?hang=1&n=$name");
eventually { $up->now == 1 } 'the permit is in use';
my $generation = $state->shard('gen');
$node->thaw($other);
$node->freeze($one);

$master->cmd('FLUSHALL');
my $next = $node->begin("/?t=1&n=$name");
eventually { ($state->shard('gen') // $generation) ne $generation }
    'another generation';
eventually { $up->peak == 2 || $state->shard('recover_until') } 'it recovers';

$node->thaw($one);
eventually { $state->held($name) == 1 } 'declared';
is $up->peak, 1, 'limit reached, never exceeded';
$up->release_all;
is $_->wait->status, 200, 'served' for $held, $next;

$t->done;
