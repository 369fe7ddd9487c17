#!/usr/bin/perl

# Redis loses its state. A node that had no requests knows no limit, and is the
# first to come back: the limit goes on with the one that the other has found.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($busy, $idle) = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /lost {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $load = load();
eventually { limit() >= 20 } 'found', 30;
$load->stop->wait;
wait_for { $t->state->held('api') == 0 } 15, 'the end of the load';
my $found = limit();

my ($worker) = $busy->workers;
kill STOP => $worker;
$redis->cmd('FLUSHALL');
wait_for { limit() } 15, 'the idle node';
is limit(), 10, 'which has found nothing';
kill CONT => $worker;
wait_for { $t->state->session_count == 2 && !$redis->recovering } 30,
    'recovery';

$load = load();
wait_for { history() } 15, 'samples';
my (undef, $first) = split ' ', history();
cmp_ok $first, '>=', $found / 2, 'goes on with the limit found';
$load->stop->wait;

$t->done;

sub load {
    return $t->load_start(clients => 60, seconds => 90,
        urls => [ $busy->url('/lost?t=50&knee=30') ]);
}

sub limit { return $t->state->lowest_limit('api') }

sub history {
    return $redis->cmd('HGET', $t->state->auto_key('api'), 'history');
}
