#!/usr/bin/perl

# Redis loses its state, and with it the limit that was found: workers know it,
# and it is in force again when the state has recovered.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
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

my $load = $t->load_start(clients => 60, seconds => 90,
    urls => [ $node->url('/lost?t=50&knee=30') ]);
eventually { limit() >= 24 } 'found', 30;

my $gen = $t->state->shard('gen');
$redis->cmd('FLUSHALL');
# before the first sample, which the rule may judge in its way
my $first;
wait_for { $first = limit() } 15, 'the first session';
cmp_ok $first, '>=', 15, 'the limit known before';
wait_for { ($t->state->shard('gen') // $gen) ne $gen && !$redis->recovering }
    15, 'recovery';
my $served = $up->served;
wait_for { $up->served > $served + 300 } 30, 'the load to go on';
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

$t->done;

sub limit { return $t->state->lowest_limit('api') }
