#!/usr/bin/perl

# In a good session the scripts are gone, and a link is so slow that they take
# longer than dsem_redis_timeout: Redis is unavailable from then on, for a reason
# of its own, not since an earlier loss.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s
my $LATER = 40;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $far = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $far->address);
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
dsem_redis_timeout 250ms;
dsem_on_error reject;
dsem_log_level info;
add_header X-Status $dsem_status always;
location / {
    dsem api limit=2 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

sub after { return map { /available again after (\d+) ms/ } $node->grep_log(qr/./) }

# on a busy machine the scripts may take longer than the timeout here, too
eventually { $node->get('/?t=1')->status == 200 } 'a good session';
$node->clear_logs;
$far->refuse;
$far->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'an outage';
$far->refuse(0);
wait_for { after() == 1 } 15, 'its end';
$clock->step($LATER);
eventually { $node->get('/?t=1')->status == 200 } 'good for a while';
my $outages = after();

# 200 KB/s at most: the longest script takes 0.3 s
$far->slice(1000, 0.005);
$redis->cmd('SCRIPT', 'FLUSH');
is $node->get('/?t=1')->header('X-Status'), 'ERROR', 'no wait for scripts';
$far->freeze;
like $node->get('/dsem/semaphores')->body,
    qr/"state":"unavailable".*"reason":"no reply in time"/, 'the reason';
$far->thaw;
eventually { after() > $outages } 'available again';
cmp_ok((after())[-1], '<', $LATER * 1000, 'the time is that of this loss');

$t->done;
