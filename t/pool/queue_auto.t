#!/usr/bin/perl

# "queue=auto" of a pool: as many requests may wait as all servers together
# serve in time, also at a node that has no permit of the pool at the moment.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map {
    'server ' . $_->address . ' max_conns=1;'
} @up;

my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=max_conns queue=%%QUEUE%%;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / { proxy_pass http://gpus; }
}
EOF_CONF
my $one = $t->node('one', $conf, QUEUE => 'auto timeout=1s');
my $two = $t->node('two', $conf, QUEUE => '100 timeout=60s');

# Permits are held for 400 ms or more: two servers serve five requests in 1 s at
# most, and that less two roots of it is one.

$one->get('/?t=400') for 1 .. 3;
wait_for { $t->state->counts('gpus') eq '0 0' } 15, 'nothing is out';

my @held = map { $two->begin('/?hang=1') } @up;
wait_for { "@{[ map { $_->now } @up ]}" eq '1 1' } 15, 'both are taken';
my $waits = $two->begin('/');
wait_for { $t->state->counts('gpus') eq '2 1' } 15, 'one waits';
my $refused = $one->get('/');
is $refused->status, 503, 'no second one';
is $one->logged($refused)->{dsem_status}, 'REJECTED', 'at once';
$_->release_all for @up;
is $_->wait->status, 200, 'served' for @held, $waits;

$t->done;
