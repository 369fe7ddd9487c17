#!/usr/bin/perl

# A Cluster that lacks slots rejects all commands. Redis is unavailable, the
# log names the cause, nodes are asked at a bounded pace, and permits are
# granted again when the Cluster has all slots.

use List::Util qw(sum0);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

# that of the names, and the first one
my $SHARDS = 2;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 1s;
dsem_status 503 error=500;
location / {
    dsem api limit=2 queue=10 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem other limit=2 queue=10 timeout=10s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @running = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'all permits out';

my $owner = $cluster->owner;
my ($lost, $other) = grep { $_ != $owner } $cluster->nodes;
my @slots = map { split /-/ } (split ' ', Dsem::Cluster::myself($lost))[8];
# the one that has them first: it would tell the others, and may have done so
# in a message that they have yet to read
eventually {
    for ($lost, $owner, $other) {
        $_->cmd(qw(CLUSTER DELSLOTSRANGE), @slots)
            if $_->cmd(qw(CLUSTER INFO)) =~ /slots_assigned:16384\b/;
    }
    $node->grep_log(qr/unavailable \(.*CLUSTERDOWN/) == $SHARDS;
} 'unavailable, cause logged', 15;

sub connections {
    return sum0 map { $_->cmd('INFO', 'stats')
        =~ /total_connections_received:(\d+)/ } $cluster->nodes;
}
my ($began, $before) = (now, connections());
is $node->get('/')->status, 500, 'refused';
is $node->get('/pass?t=1')->status, 200, 'passed';
wait_for { now > $began + 1 } 5, 'a second';
my $made = connections() - $before;
cmp_ok $made, '<=', $SHARDS * (2 * (now - $began) + 2), 'connections bounded';
note "$made connections in " . (now - $began) . ' s';
is $up->now, 2, 'running requests kept';

$lost->cmd(qw(CLUSTER ADDSLOTSRANGE), @slots);
$cluster->meet->whole;
eventually { $node->grep_log(qr/available again/) == $SHARDS }
    'available again', 5;
is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem: redis/)), $SHARDS,
    'one line for each shard';
eventually { $t->state->held('api') == 2 } 'permits still held';
my $waiting = $node->begin('/?t=1');
eventually { $t->state->waiting('api') == 1 } 'request queued';
$up->release_all;
is $_->wait->status, 200, 'request served' for @running, $waiting;

$t->done;
