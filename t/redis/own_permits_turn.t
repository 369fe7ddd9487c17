#!/usr/bin/perl

# Two requests come in one turn of a worker that has two permits which nobody
# uses, while Redis is unavailable, or recovers: both are served, also beside as
# many that wait as dsem_max_waiting allows. "dsem_on_error" decides of a third
# one, and of one that would wait behind a heavier one.

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
add_header Status $dsem_status always;
location /reject {
    dsem reject limit=100 queue=10 timeout=60s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem pass limit=100 queue=10 timeout=60s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /light {
    dsem heavy limit=100 queue=10 timeout=60s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /heavy {
    dsem heavy limit=100 queue=10 timeout=60s weight=3;
    proxy_pass http://%%UPSTREAM%%;
}
location /waits {
    dsem waits limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /connected {
    return 204;
}
EOF_CONF
my $node = $t->node('a', $conf, REDIS => $proxy->address);
my $away = $t->node('away', $conf);
# each knows of the other
$redis->all_beat(2);

sub one_turn {
    my ($path, $n, $want, $name) = @_;
    my @clients = map { $node->raw->send(
        "GET /connected HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. $n;
    $_->read_until(qr/ 204 .*?\r\n\r\n/s) for @clients;
    $node->freeze;
    $_->send("GET $path HTTP/1.0\r\n\r\n") for @clients;
    $node->thaw;
    my @said = map {
        join ' ', $_->read_eof =~ /^HTTP\S+ (\d+) .*^Status: (\w+)/ms
    } @clients;
    is join(', ', sort @said), $want, $name;
}

my @runs;
for my $path (qw(reject pass light)) {
    push @runs, map { $node->begin("/$path?hang=1") } 1, 2;
    wait_for { $up->now == @runs } 15, 'two of each at the backend';
}
$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 30, 'redis unavailable';
$up->release_all;
is $_->wait->status, 200, 'served' for @runs;
$node->logged($_) for @runs;

one_turn('/reject', 2, '200 PASSED, 200 PASSED', 'reject: both');
one_turn('/reject', 3, '200 PASSED, 200 PASSED, 500 ERROR',
    'reject: no third one');
one_turn('/pass', 3, '200 DEGRADED, 200 PASSED, 200 PASSED',
    'pass: both, and a third one');

# the state recovers while a session stays away

$away->kill;
$redis->empty;
$proxy->refuse(0);
eventually { $node->grep_log(qr/lost its state/) } 'redis recovers';
my @waits = ($node->begin('/heavy'));
is $node->get('/connected')->status, 204, 'one waits for more than is free';
one_turn('/light', 1, '200 DEGRADED', 'pass: none waits behind it');
push @waits, $node->begin('/waits');
is $node->get('/connected')->status, 204, 'another one waits';
is $node->get('/waits')->status, 503, 'no more wait';
one_turn('/pass', 3, '200 DEGRADED, 200 PASSED, 200 PASSED',
    'pass: both, and a third one, beside them');
ok $redis->recovering, 'state still recovers';
$t->state->set_shard(recover_until => 0);
is $_->wait->status, 200, 'those that wait are served' for @waits;

$t->done;
