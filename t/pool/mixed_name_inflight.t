#!/usr/bin/perl

# Two requests ask for a name that is a pool elsewhere, the second one before the
# first one has its reply. Between the two commands the last permit of the pool is
# released: the first one is refused, the second one has a permit, and gives it
# back.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my $pool = $t->node('pool', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
upstream gpus {
    server %%UPSTREAM%%;
    dsem gpus limit=2/server;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Dsem $dsem_status always;
    location / {
        proxy_pass http://gpus;
    }
}
EOF_CONF

my $plain = $clock->node('plain', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 30s;
add_header X-Dsem $dsem_status always;
location / {
    dsem gpus limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub held { return $t->state->held($_[0]) // 0 }

my $running = $pool->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a permit of the pool';

# no reply is late, nor will be: each request asks at once
$clock->stop;
is $plain->get('/other')->status, 200, 'the worker has asked Redis';
wait_for { !held('other') } 15, 'its permit is back';
$proxy->freeze('s2c');
my $first = $plain->begin('/');
# by the same connection
my $other = $plain->begin('/other');
wait_for { held('other') == 1 } 15, 'Redis has refused the first one';
$up->release_all;
is $running->wait->status, 200, 'the pool has been served';
wait_for { !$t->state->exists('gpus') } 15, 'the pool is at rest';
my $second = $plain->begin('/?hang=1');
wait_for { held('gpus') == 1 } 15, 'Redis has granted the second one';

$proxy->thaw('s2c');
$clock->go;
is $first->wait->header('X-Dsem'), 'ERROR', 'the first one is refused';
eventually { $up->now == 1 } 'the second one is at the backend';
$up->release_all;
is $second->wait->status, 200, 'and served';
is $other->wait->status, 200, 'as the other one';
eventually { !held('gpus') } 'its permit is back';
is $pool->get('/')->header('X-Dsem'), 'PASSED', 'the pool is served';

$t->done;
