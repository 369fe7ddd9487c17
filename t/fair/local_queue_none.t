#!/usr/bin/perl

# While Redis is unavailable a request of a location without a queue is rejected
# where it would have to wait: it does not take the place of a request of
# another location, whatever their keys.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $proxy = $t->proxy($redis->address);

my $node = $clock->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_reuse off;
dsem_lease 1s;
dsem_log_level info;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=1 queue=4 timeout=20s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none {
        dsem api limit=1 queue=0 timeout=20s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub said { join ' ', @{ $_[0]->logged($_[1]) }{qw(status dsem_status)} }

my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my $gone = now;
$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { now > $gone + 1.5 * $LEASE } 15, 'the end of the lease';
# no request is a slow one
$clock->stop;

my @heavy = map { $node->begin("/?k=heavy&t=2&n=$_") } 1 .. 4;

# a rejection says that all before it have been read

is said($node, $node->get('/?k=heavy')), '503 REJECTED', 'queue is full';
is said($node, $node->get('/none?k=light')), '503 REJECTED',
    'no queue: rejected';
ok !$_->done, 'request waits' for @heavy;
my $light = $node->begin('/?k=light&t=2');
is said($node, $heavy[3]->wait), '503 REJECTED',
    'with a queue: last of the backlog rejected';

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, $light,
    @heavy[0 .. 2];
is $up->peak, 1, 'limit reached, never exceeded';

$clock->go;
$proxy->refuse(0);
$t->done;
