#!/usr/bin/perl

# Redis is 400 ms away from two nodes: to connect and to declare takes longer
# than dsem_redis_connect_timeout. A lost connection is no outage: no request is
# refused, and nothing is logged as an error.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $up = $t->upstream;
my $far = $t->proxy($redis->address);
$far->delay(0.200);

my @nodes = $t->fleet(2, <<'EOF_CONF', REDIS => $far->address);
worker_processes 1;
dsem_redis_connect_timeout 1s;
dsem_redis_timeout 3s;
dsem_lease 4s;
dsem_reuse off;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# it starts as well
sub lost { return scalar $_[0]->grep_log(qr/lost \(/) }

is $_->wait->status, 200, 'request served'
    for map { $_->begin('/?t=1') } @nodes;
for my $round (1 .. 2) {
    # the connection has been good for a heartbeat
    my $now = now;
    wait_for { now > $now + 1 } 15, 'a heartbeat';
    my %lost = map { $_->name => lost($_) } @nodes;
    $far->reset;
    my @asked = map { my $node = $_; map { $node->begin('/?t=1') } 1, 2 }
        @nodes;
    is $_->wait->status, 200, 'lost: request served' for @asked;
    is lost($_), $lost{ $_->name } + 1, 'loss noticed' for @nodes;
}
is scalar(map { $_->grep_log(qr/unavailable \(/) } @nodes), 0,
    'redis stays available';

$t->done;
