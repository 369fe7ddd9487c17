#!/usr/bin/perl

# While Redis is unavailable each worker's own queue is fair: keys take turns,
# and in a full queue the last request of the longest backlog is rejected for
# one of another key.

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
        dsem api limit=1 queue=6 timeout=20s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub said { join ' ', @{ $_[0]->logged($_[1]) }{qw(status dsem_status)} }

# two wait when Redis goes away, the others come later

my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my @heavy = map { $node->begin("/?k=heavy&t=2&n=$_") } 1, 2;
wait_for { $t->state->waiting('api') == 2 } 15, 'two waiting';

my $gone = now;
$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { now > $gone + 1.5 * $LEASE } 15, 'the end of the lease';
# no request is a slow one
$clock->stop;

push @heavy, map { $node->begin("/?k=heavy&t=2&n=$_") } 3 .. 6;

# a rejection says that all before it have been read

is said($node, $node->get('/?k=heavy')), '503 REJECTED', 'queue is full';
my @light = map { $node->begin("/?k=light&t=2&n=$_") } 1, 2;
is said($node, $_->wait), '503 REJECTED', 'last of the backlog rejected'
    for @heavy[4, 5];
ok !$_->done, 'request waits' for @light, @heavy[0 .. 3];

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @light,
    @heavy[0 .. 3];
my %is = map { $_->nonce => 'light' } @light;
my @order = map { $is{$_} // 'heavy' } grep { $_ ne $holder->nonce }
    $up->order;
is scalar(grep { $_ eq 'light' } @order[0 .. 4]), 2, 'keys take turns'
    or note "@order";
is_deeply [grep { !$is{$_} && $_ ne $holder->nonce } $up->order],
    [map { $_->nonce } @heavy[0 .. 3]], 'order inside the key';
is $up->peak, 1, 'limit reached, never exceeded';

$clock->go;
$proxy->refuse(0);
$t->done;
