#!/usr/bin/perl

# Redis becomes unavailable while the limit is lowered for a probe: "local" uses
# the limit without it.

use lib 't/lib';
use Dsem::Test;

my ($FOUND, $PROBED) = (20, 15);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
dsem_redis_timeout 1s;
location /probe {
    dsem api limit=auto max=100 queue=200 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->lowest_limit('api') } 15, 'the session';
$t->state->set_found('api', $FOUND);
is $node->get('/probe')->status, 200, 'a request';
wait_for { $t->state->rule('api')->{found} } 15, 'its sample';

# A probe, and requests during it, too few to end it. It ends, too, if there was
# no sample for as long as a lease.
wait_for {
    $t->state->set_rule('api', mode => 1, base => $FOUND, changed => 0,
        mean => 0, count => 0);
    $t->state->set_found('api', $PROBED);
    $node->get('/probe');
    wait_for {
        $t->state->rule('api')->{count} || !$t->state->rule('api')->{mode}
    } 15, 'a sample';
    $t->state->rule('api')->{mode};
} 15, 'a probe';
is $t->state->lowest_limit('api'), $PROBED, 'the limit of the probe in force';

# Redis tells that limit once more, without the one found
wait_for { $t->state->held('api') == 0 } 15, 'all permits free';
my $started = $up->started;
my @requests = $node->begin('/probe?hang=1');
wait_for { $up->now == 1 } 15, 'a request';
$redis->freeze;

push @requests, map { $node->begin("/probe?hang=1&n=$_") } 2 .. 3 * $FOUND;
for my $round (1 .. 3) {
    eventually { $up->started == $started + $round * $FOUND }
        "round $round: the limit without the probe" or die;
    $up->release_all;
}
is $up->peak, $FOUND, 'never exceeded';
is_deeply [ grep { $_->wait->status ne 200 } @requests ], [], 'all served';
ok scalar($node->grep_log(qr/unavailable \(/)), 'redis unavailable';
$redis->thaw;

$t->done;
