#!/usr/bin/perl

# A worker is killed while Redis is down, and Redis comes back empty. Its
# successor has no session to remove, and does not claim that permits were
# released.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 2s;
location / {
    dsem api limit=2 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $lost = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a permit is out';
my ($dead) = $t->state->sessions;
$redis->kill;
$node->kill_worker;
wait_for { $lost->done } 15, 'the end of its connection';
$redis->start;

eventually {
    $node->grep_log(qr/session $dead of a dead worker was not registered any m/)
} 'nothing to remove';
is scalar($node->grep_log(qr/permits are released/)), 0,
    'no permit was released';
# the dead one is missed, for a lease
is $node->get('/')->status, 200, 'successor serves';

$t->done;
