#!/usr/bin/perl

# Redis freezes while requests of two keys wait with places in its queue: the
# worker's own permit serves them in turns. When Redis goes on, their places
# leave its queue, and counts agree.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 20);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_redis_timeout 10s;
dsem_lease 20s;
location / {
    dsem api limit=1 queue=50 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my (@all, %is);
for my $k (('heavy') x 6, 'light', 'light') {
    my $request = $node->begin("/?k=$k&t=2");
    push @all, $request;
    $is{ $request->nonce } = $k;
    wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
}

$redis->freeze;
# a release is sent to a Redis that has replied just now
my $frozen = now;
wait_for { now - $frozen > 1.5 } 5, 'a check without a reply';
$up->release_all;
wait_for { $up->served >= 5 } 9, 'five served by the own permit';
$redis->thaw;
is $_->wait->status, 200, 'request served' for $holder, @all;

my @order = map { $is{$_} // () } $up->order;
is scalar(grep { $_ eq 'light' } @order[0 .. 3]), 2, 'keys take turns'
    or note "@order";
is $up->peak, 1, 'limit reached, never exceeded';
eventually { !grep { /:[sqf]:/ } @{ $redis->cmd('KEYS', '*') } }
    'no place left in redis';
is scalar($node->grep_log(qr/counts differ|resynchronizing|unavailable/)), 0,
    'counts agree';

$t->done;
