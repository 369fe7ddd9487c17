#!/usr/bin/perl

# An outage of Redis, for all, that is longer than a lease: requests of one
# worker run on, while another one admits its share. What is above the limit
# then is counted and logged at the end of the recovery, by the one that has
# admitted it.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s; of a recovery, and of its last part
my $LEASE = 3600;
my ($PAUSE, $LAST) = ($LEASE / 4, $LEASE / 32);

my $t = Dsem::Test->new(lease => $LEASE);
my $wall = Dsem::Clock->new($t);
my $clock = Dsem::Clock->new($t, monotonic => 1, name => 'monotonic');
my $redis = $wall->redis;
my $up = $t->upstream;
my @proxies = map { $t->proxy($redis->address) } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1h;
dsem_redis_connect_timeout 300ms;
location / {
    dsem api limit=4 queue=10 timeout=3h;
    proxy_read_timeout 3h;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
my ($a, $b) = map {
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
for my $node ($a, $b) {
    wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'an outage';
}
$_->step($LEASE + 2) for $wall, $clock;
# its share: half of the limit
push @runs, map { $b->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 6 } 15, 'the other one admits two';

for ([$b, $proxies[1]], [$a, $proxies[0]]) {
    my ($node, $proxy) = @$_;
    $proxy->refuse(0);
    wait_for { $node->grep_log(qr/available again/) } 15, 'Redis again';
}
ok $redis->recovering, 'it recovers';
is scalar(map { $_->grep_log(qr/overage/) } $a, $b), 0, 'nothing is known yet';

$_->step($PAUSE - $LAST / 2) for $wall, $clock;
eventually { $b->grep_log(qr/\[warn\].*overage of 2 permits of "api"/) }
    'an overage at the end';
like +($b->grep_log(qr/overage/))[0],
    qr/\(requests were admitted while redis was unavailable\)/, 'its cause';
like $b->get('/dsem/metrics')->body,
    qr/^dsem_overage_permits_total\{[^}]*"api"\} 2$/m, 'counted';

$_->step($LAST) for $wall, $clock;
wait_for { !$redis->recovering } 15, 'the end of the recovery';
$redis->all_beat(2);
is $t->state->counts('api'), '6 0', 'all are in use';
is scalar(map { $_->grep_log(qr/overage/) } $a, $b), 1, 'logged once';
like $a->get('/dsem/metrics')->body,
    qr/^dsem_overage_permits_total\{[^}]*"api"\} 0$/m, 'by one worker';

$up->release_all;
is $_->wait->status, 200, 'served' for @runs;

$t->done;
