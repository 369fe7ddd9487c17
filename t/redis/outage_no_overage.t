#!/usr/bin/perl

# An outage of Redis, for all, that is longer than a lease: each worker admits
# its share, and the first one that is back declares its requests beside the
# permits that another one had before. The limit holds, and no overage is told.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s
my $LEASE = 60;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my @proxies = map { $t->proxy($redis->address) } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_redis_connect_timeout 300ms;
location / {
    dsem api limit=4 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
# grants pause for a quarter of the lease after the outage: until then all have
# to be back
my $clock = Dsem::Clock->new($t, monotonic => 1);
my @nodes = my ($a, $b) = map {
    $clock->node("n$_", $conf, REDIS => $proxies[$_]->address)
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
$clock->step($LEASE + 2);
$t->state->step_wall(-1000 * ($LEASE + 2));
# its share: half of the limit
@runs = map { $b->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 30, 'the other one admits two';

for my $n (1, 0) {
    $proxies[$n]->refuse(0);
    wait_for { $nodes[$n]->grep_log(qr/available again/) } 30, 'Redis again';
}
$t->state->advance(1000 * $LEASE / 4);
$clock->step($LEASE / 4);
eventually { $t->state->counts('api') eq '2 0' } 'two permits in use';
is scalar(map { $_->grep_log(qr/overage/) } @nodes), 0, 'no overage';
like $_->get('/dsem/metrics')->body,
    qr/^dsem_overage_permits_total\{[^}]*"api"\} 0$/m, 'none counted'
    for @nodes;

$up->release_all;
is $_->wait->status, 200, 'served' for @runs;
is $up->peak, 4, 'the limit was reached, and kept';

$t->done;
