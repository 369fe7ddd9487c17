#!/usr/bin/perl

# A location inside of one with dsem_hold: its own semaphores keep idle permits
# as if it stood elsewhere.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
$t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse 60s;
location /jobs/ {
    dsem jobs limit=1 queue=9;
    dsem_hold;
    location /jobs/status {
        dsem status limit=20 queue=50;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

is $node->get('/jobs/status')->status, 200, 'a request inside';
eventually { $t->state->figure('status', 'active') } 'its permit stays';
is $t->state->held('status'), 1, 'one permit';
$node->quit;

$t->done;
