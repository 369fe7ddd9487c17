#!/usr/bin/perl

# No worker keeps more idle permits than its fair share of the limit, however
# many it had in use: the limit divided by the sessions of the fleet.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_reuse 30s;
dsem_lease 2s;
location / {
    dsem api limit=6 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 2 } 15, 'sessions open';
# each has seen the other
$redis->all_beat(2);

my @requests = map { $node->begin('/?hang=1') } 1 .. 6;
wait_for { $up->now == 6 } 15, 'all permits in use';
$up->release_all;
is($_->wait->status, 200, 'served') for @requests;

eventually { $t->state->held('api') == 3 } 'half of the permits stay', 5;
is($node->get('/')->status, 200, 'one more served');
is($t->state->held('api'), 3, 'share still idle');

$t->expect_held(3)->done;
