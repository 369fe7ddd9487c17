#!/usr/bin/perl

# An upload without a place in the queue comes right after a request was
# rejected, and after a permit of this worker has become idle: it has that, and
# is not rejected unread.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse 60s;
lingering_close off;
add_header X-Dsem $dsem_status always;
location / {
    dsem one limit=1 queue=$arg_queue timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# what a worker knows of a full semaphore is forgotten after 100 ms
$clock->stop;
my $holder = $node->begin('/?queue=10&hang=1');
wait_for { $up->now == 1 } 15, 'limit reached';
is $node->get('/?queue=0')->header('X-Dsem'), 'REJECTED', 'no place';
my $unread = $node->begin('/?queue=0', -method => 'POST',
    'Content-Length' => 10);
is $unread->wait->status, 503, 'an upload is rejected unread';
$up->release_all;
is $holder->wait->status, 200, 'the permit comes free';
$node->logged($holder);
my $upload = $node->get('/?queue=0', -method => 'POST', -body => 'x');
is $upload->header('X-Dsem'), 'PASSED', 'an upload has it';
$clock->go;
$node->quit;

$t->done;
