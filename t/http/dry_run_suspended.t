#!/usr/bin/perl

# A request has a permit from Redis, comes to a dry run, and ends while it would
# wait there: it is logged as that.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
location / {
    dsem one limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /first {
    dsem two limit=1;
    try_files /nowhere @then;
}
location @then {
    dsem one limit=1 queue=9 timeout=60s;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now == 1 } 15, 'the holder';
my $request = $node->begin('/first?hang=1', 'X-Nonce' => 'request');
wait_for { $t->state->waiting('one') == 1 && $up->now == 2 } 15,
    'it would wait';
# the worker knows its place before the reply for another request
is $node->get('/')->status, 503, 'the limit is reached';
$up->release_nonce('request');
is $request->wait->status, 200, 'it passes';
is $node->logged($request)->{dsem_status}, 'QUEUED_DRY_RUN', 'the log';

$up->release_all;
is $holder->wait->status, 200, 'served';

$t->done;
