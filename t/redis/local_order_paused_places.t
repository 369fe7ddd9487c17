#!/usr/bin/perl

# A pause and a lower limit of a name are remembered in one place: of 62 names with
# both no worker that starts in an outage admits a request. When one of the two
# has ended, the other is kept.

use lib 't/lib';
use Dsem::Test;

# two less than a node remembers
my $NAMES = 60;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
add_header X-Dsem $dsem_status always;
location / {
    dsem tenant:$arg_t limit=8;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

seen($_, '2 1', 'REJECTED') for 1 .. $NAMES, 'resumed', 'raised';
seen('resumed', '2 0', 'PASSED');
seen('raised', '- 1', 'REJECTED');
wait_for { !$t->state->held('tenant:resumed') } 15, 'resumed: released';
$redis->all_beat(1);

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
$node->clear_logs;
$node->reload;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'a new worker without';
wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';

my @admitting = grep { admitted($_) } 1 .. $NAMES;
is "@admitting", '', 'all that have an order and a pause are paused';
is admitted('resumed'), 2, 'a pause that has ended leaves the order';
is admitted('raised'), 0, 'an order that has ended leaves the pause';
is admitted('others'), 3, 'another name';
$redis->start;

$t->done;

# Redis has answered a request of this name, which has an order.
sub seen {
    my ($name, $order, $status) = @_;
    $t->state->order("tenant:$name", $order);
    wait_for {
        ($node->get("/?t=$name")->header('X-Dsem') // '') eq $status
    } 15, "$name: $status";
}

# How many of three requests are.
sub admitted {
    my ($name) = @_;
    return $up->admitted(map { $node->begin("/?t=$name&hang=1") } 1 .. 3);
}
