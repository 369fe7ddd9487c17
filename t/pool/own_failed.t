#!/usr/bin/perl

# A server has failed, and only there a worker has a permit that no request uses,
# while Redis is out of reach, or recovers. That serves no request, and none waits
# for it: "dsem_on_error" decides at once, and dsem_max_waiting holds.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map {
    'server ' . $_->address . ' fail_timeout=3600;'
} @up;
my $first = $up[0]->address;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<"EOF_CONF", REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 60s;
dsem_lease 60s;
dsem_reuse off;
dsem_max_waiting 1;
dsem_status 503 error=500;
proxy_next_upstream off;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header Status \$dsem_status always;
    location /reject {
        dsem_on_error reject;
        proxy_pass http://gpus;
    }
    location /pass {
        dsem_on_error pass;
        proxy_pass http://gpus;
    }
    location /free {
        return 204;
    }
    location /waits {
        dsem waits limit=1 queue=10 timeout=60s;
        proxy_pass http://$first;
    }
}
EOF_CONF

sub said {
    my ($path) = @_;
    my $request = $node->get($path);
    return join ' ', $request->status, $request->header('Status');
}

my @held = $node->begin('/pass?hang=1');
wait_for { 1 == grep { $_->now } @up } 15, 'a request at one server';
my ($good, $bad) = sort { $b->now <=> $a->now } @up;
push @held, $node->begin('/pass?hang=1&rst=1');
wait_for { $bad->now } 15, 'one at the other';
$redis->all_beat(1);
$t->state->set_shard(recover_until => 40_000 + $t->state->shard('clock'));
$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';

# the next connection has no reply, until it is let through

$proxy->freeze('s2c');
$proxy->refuse(0);
wait_for { $proxy->open } 15, 'a connection';
$bad->release(1);
is $held[1]->wait->status, 502, 'a server fails';
is said('/reject'), '500 ERROR', 'reject: at once';
is said('/pass'), '200 DEGRADED', 'pass: at once';
is(($good->log)[1]{uri}, '/pass', 'at the other server');

# Redis is back, and grants nothing yet

$proxy->thaw('s2c');
eventually { $node->grep_log(qr/available again/) } 'redis available again';
eventually { $t->state->held('gpus') == 2 } 'both permits are declared';
is said('/pass'), '200 DEGRADED', 'recovering: passed';
my $waits = $node->begin('/waits');
is $node->get('/free')->status, 204, 'one waits';
is said('/waits'), '503 REJECTED', 'no other one does';
is said('/reject'), '503 REJECTED', 'nor does one of the pool';
cmp_ok $t->state->shard('recover_until'), '>', $t->state->shard('clock'),
    'nothing was granted meanwhile';

$t->state->set_shard(recover_until => 0);
is $waits->wait->status, 200, 'it gets its permit in the end';
$good->release_all;
is $held[0]->wait->status, 200, 'request ended';

$t->done;
