#!/usr/bin/perl

# The machine of Redis stands still together with its clock, longer than a lease,
# as a virtual machine that is paused: workers admit their shares meanwhile. When
# Redis is back, its clock has not moved. The first worker that comes back says
# for how long it had no reply: nothing is granted until the others have declared.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
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
for (1 .. 3) {
    # it counts what the last heartbeat replied
    $_->step($LEASE / 4) for $wall, $clock;
    $redis->all_beat(2);
}

my @runs = map { $a->begin('/?hang=1') } 1 .. 4;
wait_for { $up->now == 4 } 15, 'one worker has all permits';
for my $proxy (@proxies) {
    $proxy->refuse;
    $proxy->cut;
}
for my $node ($a, $b) {
    wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'an outage';
}
$up->release_all;
is $_->wait->status, 200, 'served' for @runs;

# that of Redis stands still
$clock->step($LEASE + 2);
# shares: half of the limit
@runs = map { my $node = $_; map { $node->begin('/?hang=1') } 1, 2 } $a, $b;
wait_for { $up->now == 4 } 15, 'each admits two';
push @runs, map { $a->begin('/?hang=1') } 1, 2;
wait_for {
    decode_json($a->get('/dsem/semaphores/api')->body)
        ->{semaphore}{local}{waiting} == 2
} 15, 'two wait';

for ([$a, $proxies[0]], [$b, $proxies[1]]) {
    my ($node, $proxy) = @$_;
    $proxy->refuse(0);
    wait_for { $node->grep_log(qr/available again/) } 15, 'Redis again';
}
ok $redis->recovering, 'nothing is granted yet';
wait_for { $t->state->counts('api') =~ /^[46] 0$/ } 15, 'all is declared';
is $up->peak, 4, 'the limit';

$_->step($LEASE / 4) for $wall, $clock;
wait_for { !$redis->recovering } 15, 'the end of the pause';
eventually { $t->state->counts('api') eq '4 2' } 'two wait on';
is scalar(map { $_->grep_log(qr/overage/) } $a, $b), 0, 'no overage';

$up->release_all;
is $up->peak, 4, 'the limit';
wait_for { $up->now == 2 } 15, 'those that have waited';
$up->release_all;
is $_->wait->status, 200, 'served' for @runs;

$t->done;
