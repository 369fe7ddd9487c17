#!/usr/bin/perl

# Redis is lost while a thousand requests wait. Their verdicts do not come in
# one turn of the event loop: what the first one causes, a request to the same
# worker, is served before the last one has its verdict.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(first);
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $WAITING = 1000;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
worker_rlimit_nofile 4096;
events { worker_connections 4096; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 500ms;
    dsem_node %%NODE%%;
    dsem_max_waiting 2000;
    dsem_on_error reject;
    server {
        listen 127.0.0.1:%%PORT%% backlog=2048;
        error_page 503 = @other;
        location / {
            dsem api limit=1 queue=2000 timeout=1h;
            proxy_pass http://%%UPSTREAM%%;
        }
        location @other {
            proxy_pass http://unix:%%DIR%%/other;
        }
        location /plain {
            error_page 599 /none;
            dsem api limit=1 queue=2000 timeout=1h;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
    server {
        listen unix:%%DIR%%/other;
        return 204;
    }
}
EOF_CONF

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one request served';
my $first = $node->begin('/');
wait_for { $t->state->waiting('api') == 1 } 15, 'the first one waits';
my @others = map { $node->begin('/plain') } 1 .. $WAITING;
wait_for { $t->state->waiting('api') == 1 + $WAITING } 15, 'all wait';

$redis->kill;
is $first->wait->status, 204, 'first one sent elsewhere';
is scalar(grep { $_->wait->status == 503 } @others), $WAITING,
    'all others refused';

# a line of the log is written when a request ends
my @log = $node->access_log;
my $served = first { $log[$_]{status} == 204 } 0 .. $#log;
my $refused = first { $log[$_]{status} == 503 } reverse 0 .. $#log;
cmp_ok $served, '<', $refused, 'other request served in between';
note sprintf '%d of %d refused before it', scalar(grep { $_->{status} == 503 }
    @log[0 .. $served]), $WAITING;

$up->release_all;
is $holder->wait->status, 200, 'holder served';

$t->done;
