#!/usr/bin/perl

# As many requests wait as dsem_max_waiting allows, and Redis is unavailable or
# recovers: the bound is for requests that would wait. One of "dsem_on_error
# pass" passes, whether its semaphore is in use here or not, and a permit of this
# worker serves the next request.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease 60s;
dsem_reuse off;
dsem_max_waiting 2;
dsem_status 503 error=500;
location /pass {
    dsem pass$arg_n limit=100 queue=10 timeout=60s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /own {
    dsem own limit=1 queue=10 timeout=60s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /waits {
    dsem waits limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $node = $t->node('a', $conf, REDIS => $proxy->address);
my $away = $t->node('away', $conf);
# each knows of the other
$redis->all_beat(2);

sub said { join ' ', @{ $node->logged($_[0]) }{qw(status dsem_status)} }

my @runs;
for my $path (qw(pass waits own)) {
    push @runs, $node->begin("/$path?hang=1");
    wait_for { $up->now == @runs } 15, 'one of each at the backend';
}
my @waits = map { $node->begin('/waits') } 1, 2;
wait_for { $t->state->waiting('waits') == 2 } 15, 'two wait';
is said($node->get('/pass')), '503 REJECTED', 'a third would ask Redis';

$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 30, 'redis unavailable';
is said($node->get('/pass')), '200 DEGRADED', 'passed, others are in use';
is said($node->get('/pass?n=2')), '200 DEGRADED', 'passed, none is in use';
is said($node->get('/waits')), '503 REJECTED', 'a third that would wait';
is said($node->get('/own')), '500 ERROR', 'no permit, no wait';
$up->release_all;
is $_->wait->status, 200, 'served' for @runs, @waits;

# own permits, beside two that wait

@runs = ($node->begin('/waits?hang=1'));
wait_for { $up->now == 1 } 15, 'on an own permit';
@waits = map { $node->begin('/waits') } 1, 2;
is said($node->get('/waits')), '503 REJECTED', 'two wait again';
is said($node->get('/own')), '200 PASSED', 'on an own permit, too';

# the state recovers while a session stays away

$away->kill;
$redis->empty;
$proxy->refuse(0);
eventually { $node->grep_log(qr/lost its state/) } 'redis recovers';
is said($node->get('/pass?n=2')), '200 DEGRADED', 'passed, none is in use';
is said($node->get('/waits')), '503 REJECTED', 'a third that would wait';
$up->release_all;
is $_->wait->status, 200, 'served' for @runs, @waits;
# before the recovery ends
$node->quit;

$t->done;
