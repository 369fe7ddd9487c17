#!/usr/bin/perl

# Redis becomes unavailable while the limit is lowered for a probe: "local" uses
# the limit without it.

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
        location /probe {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# of the state of the rule: found, whether it probes, and the limit without
sub rule {
    my @field = split ' ', $redis->cmd('HGET', $t->state->auto_key('api'),
        '.') // '';
    return @field ? @field[0, 9, 10] : (0, 0, 0);
}

my $load = $t->load_start(clients => 60, seconds => 90,
    urls => [ $node->url('/probe?t=50&knee=30') ]);
my $base;
wait_for {
    (my ($found, $mode), $base) = rule();
    $mode == 1 && $base >= 16 && $up->now <= $found;
} 60, 'a probe';
$redis->freeze;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';

my $gone = now;
wait_for { now > $gone + 2 } 15, 'the lease to end';
wait_for { $up->now <= $base } 15, 'earlier requests to end';
$up->reset;
my $served = $up->served;
wait_for { $up->served > $served + 200 } 30, 'the load without redis';
is $up->peak, $base, 'the limit without the probe, never exceeded';
$load->stop->wait;
$redis->thaw;

$t->done;
