#!/usr/bin/perl

# A worker that knows a queue to be full rejects requests before it reads
# their bodies. With "fair" it does not: the request may come before another.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=1 queue=3 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my @heavy = map { $node->begin("/?k=heavy&t=1&n=$_") } 1 .. 3;
wait_for { $t->state->waiting('api') == 3 } 15, 'a full queue';

# the head of the request comes when the worker has just seen a full queue

is $node->get('/?k=heavy')->status, 503, 'queue is full';
my $light = $node->raw;
$light->send("POST /?k=light&t=1 HTTP/1.1\r\nHost: x\r\n"
    . "Content-Length: 5\r\nConnection: close\r\n\r\n");
my $from = now;
wait_for { now - $from > 0.05 } 1, 'a moment';
$light->send('hello');
eventually { 3 == $t->state->waiting('api')
    && grep { $_->done } @heavy } 'a request of the backlog rejected';
is scalar(grep { $_->done && $_->status == 503 } @heavy), 1, 'one of them';

$up->release_all;
like $light->read_eof, qr{^HTTP/1\.1 200 }, 'request with a body served';
$light->close;
$_->wait for $holder, @heavy;
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
