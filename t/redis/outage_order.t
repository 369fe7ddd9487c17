#!/usr/bin/perl

# Requests that wait while Redis is unavailable lose their places in the queue,
# but not their order: they are queued again as they came.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease 2s;
location / {
    dsem api limit=1 queue=9 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub waiting { $t->state->waiting('api') }

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my @waits = map {
    my ($n, $request) = ($_, $node->begin('/'));
    wait_for { waiting() == $n } 15, "$n waiting";
    $request;
} 1 .. 4;

$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';
$proxy->refuse(0);
eventually { $node->grep_log(qr/available again/) && waiting() == 4 }
    'queued again';

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @waits;
is_deeply [ $up->order ], [ map { $_->nonce } $holder, @waits ], 'order kept';

$t->done;
