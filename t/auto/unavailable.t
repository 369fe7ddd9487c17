#!/usr/bin/perl

# Redis is unavailable: "dsem_on_error local" uses the limit that was found
# last, neither the one at the start nor "max"; so does a worker that has found
# none itself.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 1s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /local {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $load = load();
eventually { limit() >= 18 } 'found', 30;
$load->stop->wait;
my $found = limit();

$redis->stop;
$load = load();
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';
is peak(), $found, 'the limit found last, never exceeded';
$load->stop->wait;

$node->reload;
wait_for { !$node->draining } 15, 'the new worker alone';
$load = load();
is peak(), $found, 'a new worker: the same';
$load->stop->wait;
$redis->start;

$t->done;

sub load {
    return $t->load_start(clients => 60, seconds => 90,
        urls => [ $node->url('/local?t=50&knee=30') ]);
}

# the most requests at once after the lease
sub peak {
    my $gone = now;
    wait_for { now > $gone + 2 } 15, 'the lease to end';
    wait_for { $up->now <= $found } 15, 'earlier requests to end';
    $up->reset;
    my $served = $up->served;
    wait_for { $up->served > $served + 200 } 30, 'the load without redis';
    return $up->peak;
}

sub limit { return $t->state->lowest_limit('api') }
