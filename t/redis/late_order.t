#!/usr/bin/perl

# A worker that was busy reads its reply of before an order, or of before its
# end, when its sibling has read a newer one: in an outage both know the newer.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;
use Dsem::Workers;

my $LEASE = 60;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $state = $t->state;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_redis_connect_timeout 200ms;
dsem_redis_timeout 60s;
dsem_lease 60s;
dsem_reuse off;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    add_header X-Dsem $dsem_status always;
    location /pid {
        return 200 $pid,;
    }
    location / {
        dsem $arg_n limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $to = Dsem::Workers->new($node);
my ($one, $two) = $to->pids;

# the place of an order is that of its name from the first reply with it
$state->order('ends', '2 0');
seen($one, 'ends');

# replies to releases of one worker wait until its sibling has newer ones
my @names = qw(begins ends);
for (0, 1) {
    $to->send($two, $_, "/?n=$names[$_]&hang=1");
    wait_for { $up->now == $_ + 1 } 15, "a request of $names[$_]";
}
$proxy->freeze('s2c');
$up->release_all;
wait_for { !grep { $state->held($_) } @names } 15, 'released';
$node->freeze($two);
$proxy->thaw;
$state->order('begins', '2 0');
$state->drop_order('ends');
seen($one, $_) for @names;
$node->thaw($two);
$to->answered($two, $_) for 0, 1;
$redis->all_beat(2) for 1, 2;

$redis->stop;
wait_for { 2 == $node->grep_log(qr/unavailable \(/) } 15,
    'redis unavailable';
$clock->step($LEASE + 5);
for my $pid ($one, $two) {
    wait_for { $to->got($pid, '/?n=other') =~ / 200 / } 15, 'the lease is over';
    is $to->admitted($pid, '/?n=begins', $up), 1, 'half of the order';
    is $to->admitted($pid, '/?n=ends', $up), 5, 'the order has ended';
}
$redis->start;

$t->done;

# A worker has the reply to a request.
sub seen {
    my ($pid, $name) = @_;
    wait_for { $to->got($pid, "/?n=$name") =~ /PASSED/ } 15, "$name granted";
}
