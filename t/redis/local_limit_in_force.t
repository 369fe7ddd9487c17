#!/usr/bin/perl

# While Redis is unavailable the share of a worker is one of the limit in force,
# as far as the worker knows it: another node asks for a lower limit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.050);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 300ms;
dsem_lease 1s;
location /local {
    dsem api limit=20 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $low = $t->node('low', $conf =~ s/limit=20/limit=6/r);
my $high = $t->node('high', $conf);
wait_for { lowest() == 6 } 15, 'both nodes registered';
# each has seen the other
$redis->all_beat(2);

my $load = $t->load_start(urls => [ $high->url('/local') ], clients => 20,
    seconds => 60);
wait_for { $up->now == 6 && $up->served > 20 } 15, 'load at the lower limit';
$redis->stop;
eventually { $high->grep_log(qr/unavailable \(/) } 'redis unavailable';
my $gone = now;
# with a heartbeat, from the last reply before it was gone
wait_for { now > $gone + 1.3 } 15, 'the lease to end';
wait_for { $up->now <= 3 } 15, 'earlier requests to end';
$up->reset;
wait_for { $up->served > 20 } 30, 'the load to go on';
is $up->peak, 3, 'half of the lower limit';
$load->stop->wait;
$redis->start;

$t->done;

# the lowest limit that a live configuration asks for
sub lowest { return $t->state->lowest_limit('api') }
