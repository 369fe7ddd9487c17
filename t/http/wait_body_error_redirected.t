#!/usr/bin/perl

# A request of a dry run has a ticket, and is redirected to a location that reads
# the body first. That is too large: the request has its answer, leaves its
# ticket, and does not run again when a permit comes free.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
client_max_body_size 10;
location / {
    dsem one limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /tried {
    dsem one limit=1 queue=10 timeout=60s;
    dsem_dry_run on;
    try_files /nowhere @first;
}
location @first {
    dsem one limit=1 queue=10 timeout=60s;
    dsem_wait_body first;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

# the connection stays open while nginx discards what the client still sends
my $client = $node->raw->send("POST /tried HTTP/1.1\r\nHost: a\r\n"
    . "Transfer-Encoding: chunked\r\n\r\n14\r\n" . 'x' x 20 . "\r\n");
like $client->read_until(qr/ 413 /), qr/ 413 /, 'too large';

$up->release_all;
is $holder->wait->status, 200, 'the permit comes free';
is $node->get('/')->status, 200, 'for the next request';
is $up->served, 2, 'nothing else came to the backend';
$client->close;

$t->done;
