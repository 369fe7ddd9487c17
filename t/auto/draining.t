#!/usr/bin/perl

# A worker that exits finds no limit any more: what its last requests took says
# nothing of the configuration that has replaced its own.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
location /left {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('a', $conf);
my $key = $t->state->auto_key('api');

my @requests = map { $node->begin('/left?hang=1') } 1 .. 8;
eventually { $up->now == 8 } 'eight requests';

# a worker with requests tells of them
$up->release(4);
eventually { $redis->cmd('EXISTS', $key) } 'samples were sent';

$node->reload($conf =~ s/dsem api/dsem other/r);
wait_for { $t->state->lowest_limit('api') == 0 } 15, 'its limit withdrawn';
ok scalar($node->draining), 'old worker still there';
$redis->cmd('DEL', $key);
$up->release(2);
eventually { $up->now == 2 } 'two more have ended';
# as long as ten samples
my $ended = now;
wait_for { now - $ended > 1 } 15, 'some time';
is $redis->cmd('EXISTS', $key), 0, 'no sample of an exiting worker';
$up->release_all;
is $_->wait->status, 200, 'request served' for @requests;

$t->done;
