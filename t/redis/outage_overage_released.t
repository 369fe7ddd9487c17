#!/usr/bin/perl

# After an outage of Redis, for all, a request that a worker has admitted above
# the limit ends while Redis recovers, and the worker is busy at the end of
# that. Its next command gives the permit back, and the overage is counted.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s
my $LEASE = 3600;

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
    dsem api limit=1 queue=10 timeout=3h;
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

my $first = $a->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one worker has the permit';
for my $proxy (@proxies) {
    $proxy->refuse;
    $proxy->cut;
}
for my $node ($a, $b) {
    wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'an outage';
}
$_->step($LEASE + 2) for $wall, $clock;
my $second = $b->begin('/?hang=1', 'X-Nonce' => 'second');
wait_for { $up->now == 2 } 15, 'the other one admits one';

$_->refuse(0) for @proxies;
for my $node ($a, $b) {
    wait_for { $node->grep_log(qr/available again/) } 15, 'Redis again';
}
$up->release_nonce('second');
is $second->wait->status, 200, 'it ends';
ok $redis->recovering, 'before the end of the recovery';
is $t->state->counts('api'), '2 0', 'its permit has not gone back';

# the end of the recovery and all of before it in one turn
$_->step($LEASE / 4 + 60) for $wall, $clock;
wait_for { $t->state->counts('api') eq '1 0' } 15, 'its permit goes back';
eventually { $b->grep_log(qr/\[warn\].*overage of 1 permits of "api"/) }
    'an overage';
is scalar(map { $_->grep_log(qr/overage/) } $a, $b), 1, 'of one worker';

$up->release_all;
is $first->wait->status, 200, 'served';

$t->done;
