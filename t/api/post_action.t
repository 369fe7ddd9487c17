#!/usr/bin/perl

# A client leaves while the API waits for Redis, or writes a long list in turns,
# and its request runs a post_action: that is not answered by the API.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 1s;
location /dsem/ {
    dsem_api;
    post_action /after;
}
location = /after { proxy_pass http://%%UPSTREAM%%/?hang=1; }
location = /poke { return 204; }
location / { dsem one limit=1; proxy_pass http://%%UPSTREAM%%; }
EOF_CONF

is $node->get('/')->status, 200, 'connected';
my @workers = $node->workers;

my $raw = $node->raw;
$redis->freeze;
$raw->send("GET /dsem/semaphores HTTP/1.1\r\nHost: localhost\r\n\r\n");
$node->get('/poke') for 1, 2;
$raw->close;
wait_for { $up->now == 1 } 15, 'the post_action';
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'the survey to end';
$redis->thaw;
eventually { $node->get('/')->status == 200 } 'served again';
is $up->now, 1, 'the post_action runs on';
is_deeply [ $node->workers ], \@workers, 'no worker died';
$up->release_all;
eventually { $up->now == 0 } 'it ends';

$t->done;
