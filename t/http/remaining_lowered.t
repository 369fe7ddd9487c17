#!/usr/bin/perl

# $dsem_remaining is 0, not less, where a limit was lowered below the permits
# in use.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_reuse off;
add_header X-Dsem "$dsem_status $dsem_in_use/$dsem_limit $dsem_remaining"
    always;
location / {
    dsem a limit=3;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
    allow all;
}
EOF_CONF

my @held = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'two permits in use';
is $node->get('/')->header('X-Dsem'), 'PASSED 3/3 0', 'the last permit';
is $node->get('/dsem/semaphores/a', -method => 'PATCH',
    -body => '{"limit": 1}', 'Content-Type' => 'application/json')->status,
    200, 'limit lowered';
is $node->get('/')->header('X-Dsem'), 'REJECTED 2/1 0', 'none is left';
$up->release_all;
is $_->wait->status, 200, 'served' for @held;

$t->done;
