#!/usr/bin/perl

# The key of a queue is of another type for long, while a request holds its
# permit and others are refused: this concerns that name only, the session of the
# worker does not begin anew. What Redis counts is right.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 3);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 3s;
dsem_reuse off;
location / {
    dsem api limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
my $runs = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'at the backend';
my $key = $state->queue_key('api');
$redis->cmd('SET', $key, 'mine');

for (1 .. 3) {
    is $node->get('/')->status, 503, 'a request that would have to wait';
    $redis->beats(5, 'longer than an interval of the poll');
}
is scalar($node->grep_log(qr/"api" unusable .*"\Q$key\E"/)), 1, 'the key is named';
is scalar($node->grep_log(qr/usable again/)), 0, 'no new epoch';
is $state->held('api'), 1, 'the one that runs is counted';

$up->release_all;
is $runs->wait->status, 200, 'served';
wait_for { $state->held('api') == 0 } 15, 'released';
is scalar($node->grep_log(qr/usable again/)), 0, 'no new epoch for that either';
$redis->cmd('DEL', $key);
is $node->get('/')->status, 200, 'as before';

$t->done;
