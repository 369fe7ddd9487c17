#!/usr/bin/perl

# A node remembers the lower orders of 64 names for an outage. Names that do not
# come back give way after a minute: another order is remembered, and that of a
# name which is used is kept, for a worker that starts in the outage, too. A
# worker remembers those of its configuration itself.

use lib 't/lib';
use Dsem::Test;
use Dsem::Clock;

my $PLACES = 64;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);
my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
add_header X-Dsem $dsem_status always;
location / {
    dsem tenant:$arg_t limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
location /api {
    dsem api limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
location /own {
    dsem own limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

$t->state->order("tenant:$_", '2 0') for 1 .. $PLACES, 'late';
$t->state->order($_, '2 0') for qw(api own);

seen("/?t=$_") for 1 .. $PLACES;
seen('/?t=late');
seen('/own?');
released();

# the lease of the worker is over by this, too: it joins again
$clock->step(61);
seen('/?t=1');
seen('/api?');
released();

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';
is admitted('/own?'), 2, 'the order of a name without a place';
$node->clear_logs;
$node->reload;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'a new worker without';
wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';

is admitted('/api?'), 2, 'the order of api, a name of afterwards';
is admitted('/?t=1'), 2, 'the order of a name that is used';
is admitted('/?t=late'), 5, 'no order of one that came when all were used';
my $kept = grep { admitted("/?t=$_") == 2 } 2 .. $PLACES;
is $kept, $PLACES - 2, 'all but one of the others';
$redis->start;

$t->done;

# Redis has granted a request.
sub seen {
    my ($path) = @_;
    return wait_for {
        ($node->get($path)->header('X-Dsem') // '') eq 'PASSED'
    } 15, "$path granted";
}

# The worker has all replies to releases.
sub released {
    wait_for { !$t->state->held($_) } 15, "$_ released"
        for 'api', 'own', map { "tenant:$_" } 1 .. $PLACES, 'late';
    return $redis->all_beat(1);
}

# How many of five requests are.
sub admitted {
    my ($path) = @_;
    return $up->admitted(map { $node->begin("$path&hang=1") } 1 .. 5);
}
