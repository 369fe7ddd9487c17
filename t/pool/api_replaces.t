#!/usr/bin/perl

# A location that passes to a pool, by a file that is included, and has
# "dsem_api" or "dsem_hold" after that: the pool does not limit it.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
upstream servers {
    server %%UPSTREAM%%;
    dsem servers limit=1/server;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://servers;
    }
    location /dsem/ {
        proxy_pass http://servers;
        dsem_api;
        if ($arg_x) {
            set $y 1;
        }
        add_header X-Dsem "[$dsem_status]";
    }
    location /jobs {
        dsem jobs limit=1;
        proxy_pass http://servers;
        dsem_hold;
    }
}
EOF_CONF

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the server has its request';
is $node->get('/')->status, 503, 'it gets no other one';

my $answer = $node->get('/dsem/semaphores');
is $answer->status, 200, 'the API answers';
is $answer->header('X-Dsem'), '[]', 'and is not limited';
is $node->get('/dsem/semaphores?x=1')->status, 200, 'nor where it has an "if"';
my $job = $node->hold('/jobs');
is $t->state->held('jobs'), 1, 'a program has its permit';

$job->close;
$up->release_all;
is $holder->wait->status, 200, 'served';
$t->done;
