#!/usr/bin/perl

# The monotonic clock in ms is in the upper half of nginx's numbers, as it is for
# 25 of 50 days where nginx has 32 bits for it. Redis is lost: requests wait for
# it no longer than the time to connect, and use it when it is back.

use lib 't/lib';
use Config;
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $half = int 2**(8 * $Config{ptrsize} - 1) / 1000;
# s in that half, of 2**31 ms at least
my $clock = Dsem::Clock->new($t, monotonic => 1,
    far => $half + 60 - Dsem::Clock::AHEAD - int now);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_on_error pass;
dsem_redis_connect_timeout 500ms;
location / {
    dsem api limit=2 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $first = $node->get('/');
is $first->status, 200, 'served';
is $node->logged($first)->{dsem_status}, 'PASSED', 'by redis';
$redis->kill;
# the first one may use a permit that the worker has
my @waiting = map { $node->begin('/?hang=1') } 1 .. 4;
eventually { $up->now == 4 } 'requests passed without redis';
eventually { $node->grep_log(qr/unavailable \(/) == 1 } 'unavailable';
$up->release_all;
is_deeply [ map { $_->wait->status } @waiting ], [ (200) x 4 ], 'all served';
is scalar($node->grep_log(qr/unavailable \(/)), 1, 'logged once';

$redis->start;
eventually { $node->grep_log(qr/available again/) == 1 } 'available again';
is $node->get('/')->status, 200, 'served as before';
eventually { ($node->access_log)[-1]{dsem_status} eq 'PASSED' } 'by redis again';

$t->done;
