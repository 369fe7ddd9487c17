#!/usr/bin/perl

# Some keys of a shard are on their way to another master, and Redis replies
# TRYAGAIN to scripts that need all of them. That passes: requests wait, and are
# not handled by "dsem_on_error". They are served when all keys are there.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
# a name in the first shard, which all workers use: there is no other one
my $cluster = Dsem::Cluster->new($t, replicas => 0, name => 'one');
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 60s;
dsem_redis_timeout 60s;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem one limit=2 queue=10 timeout=60s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/')->status, 200, 'served';

my ($from, $slot) = ($cluster->owner, $cluster->slot);
my ($to) = grep { $_ != $from } $cluster->nodes;

sub migrate {
    my (@keys) = @_;
    $from->cmd('MIGRATE', split(/:/, $to->address), '', 0, 5000, 'KEYS', @keys);
}

$to->cmd(qw(CLUSTER SETSLOT), $slot, 'IMPORTING', $from->cmd(qw(CLUSTER MYID)));
$from->cmd(qw(CLUSTER SETSLOT), $slot, 'MIGRATING', $to->cmd(qw(CLUSTER MYID)));
migrate($t->state->key('sessions'));
my $request = $node->begin('/');
wait_for { $from->cmd('INFO', 'errorstats') =~ /_TRYAGAIN:/ } 15, 'TRYAGAIN';
wait_for { $node->grep_log(qr/lost \(TRYAGAIN /) } 15, 'the worker to know it';

migrate(@{ $from->cmd(qw(CLUSTER GETKEYSINSLOT), $slot, 100) });
$_->cmd(qw(CLUSTER SETSLOT), $slot, 'NODE', $to->cmd(qw(CLUSTER MYID)))
    for $to, $from;
is $request->wait->status, 200, 'request served by the new master';
is scalar($node->grep_log(qr/unavailable \(/)), 0, 'never unavailable';

$t->done;
