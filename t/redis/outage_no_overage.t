#!/usr/bin/perl

# An outage of Redis, for all, that is longer than a lease: each worker admits
# its share, and the first one that is back declares its requests beside the
# permits that another one had before. The limit holds, and no overage is told.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;
my @proxies = map { $t->proxy($redis->address) } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 2s;
dsem_redis_connect_timeout 300ms;
location / {
    dsem api limit=4 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
my @nodes = my ($a, $b) = map {
    $t->node("n$_", $conf, REDIS => $proxies[$_]->address)
} 0, 1;
wait_for { $t->state->session_count == 2 } 15, 'two sessions';
$redis->all_beat(2);

my @runs = map { $a->begin('/?hang=1') } 1 .. 4;
wait_for { $up->now == 4 } 15, 'one worker has all permits';
for my $proxy (@proxies) {
    $proxy->refuse;
    $proxy->cut;
}
$up->release_all;
is $_->wait->status, 200, 'served' for @runs;
# its share: half of the limit
@runs = map { $b->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 30, 'the other one admits two';

for my $n (1, 0) {
    $proxies[$n]->refuse(0);
    wait_for { $nodes[$n]->grep_log(qr/available again/) } 30, 'Redis again';
}
wait_for { $t->state->counts('api') eq '2 0' } 15, 'two permits in use';
is scalar(map { $_->grep_log(qr/overage/) } @nodes), 0, 'no overage';
like $_->get('/dsem/metrics')->body,
    qr/^dsem_overage_permits_total\{[^}]*"api"\} 0$/m, 'none counted'
    for @nodes;

$up->release_all;
is $_->wait->status, 200, 'served' for @runs;
is $up->peak, 4, 'the limit was reached, and kept';

$t->done;
