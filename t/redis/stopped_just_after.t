#!/usr/bin/perl

# A worker is stopped while it waits for a reply, and goes on just after the time
# for it: the reply is there, so Redis was not unavailable.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 20);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 2s;
dsem_lease 20s;
location / {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=1;
    empty_gif;
}
EOF_CONF

for my $late (0.01, 0.05, 0.09, 0.15) {
    $clock->stop;
    is $node->get('/other')->status, 200, 'no reply awaited';
    $proxy->freeze('s2c');
    my $request = $node->begin('/?hang=1');
    eventually { $t->state->held('api') } 'asked';
    $node->freeze;
    my $before = $proxy->bytes->{s2c};
    $proxy->thaw('s2c');
    eventually { $proxy->bytes->{s2c} > $before } 'the reply has come';
    $clock->step(2 + $late);
    $node->thaw;
    $clock->go;
    eventually { $up->now == 1 } 'granted';
    is scalar($node->grep_log(qr/no reply in time/)), 0,
        "$late s after the time: not late";
    $up->release_all;
    is $request->wait->status, 200, 'served';
    eventually { !$t->state->held('api') } 'given back';
}

$t->done;
