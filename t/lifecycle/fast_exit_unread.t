#!/usr/bin/perl

# nginx is stopped at once while Redis is frozen. Redis reads the last commands
# of the worker when it has gone, and closes the connection at the first reply
# that it cannot send: the bye is read before that.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_lease 1m;
    dsem_reuse 1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem $arg_of limit=4 queue=4;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# idle permits, which the worker releases at exit
my @served = map { $node->begin('/?of=idle&hang=1') } 1 .. 2;
wait_for { $up->now == 2 } 15, 'two at one time';
$up->release_all;
is $_->wait->status, 200, 'served' for @served;
my $running = $node->begin('/?of=idle&hang=1');
wait_for { $up->now == 1 } 15, 'one running';
cmp_ok $t->state->held('idle'), '>', 1, 'idle permits';

$redis->freeze;
my $sent = $node->begin('/?of=asked&t=1');
$node->signal('TERM');
wait_for { !$node->alive } 15, 'the end';
$redis->thaw;
eventually { $t->state->session_count == 0 } 'bye executed after thaw';

$t->done;
