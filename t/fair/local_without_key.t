#!/usr/bin/perl

# While Redis is unavailable a request of a directive without "fair" waits
# behind those of its priority that wait in its worker already, and before those
# that are placed behind it later.

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
        dsem api limit=1 queue=7 timeout=20s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /plain {
        dsem api limit=1 queue=7 timeout=20s;
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

my %is = (heavy => '/?k=heavy', plain => '/plain?', light => '/?k=light');
my @all;
for my $who (('heavy') x 3, 'plain', ('heavy') x 2, 'light') {
    my $request = $node->begin("$is{$who}&t=2&n=" . @all);
    push @all, $request;
    $is{ $request->nonce } = $who;
}
# it says that all before it have been read
is said($node, $node->get('/plain')), '503 REJECTED', 'queue is full';

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @all;
my @order = map { $is{$_} // () } $up->order;
my ($plain) = grep { $order[$_] eq 'plain' } 0 .. $#order;
my @before = @order[0 .. $plain - 1];
is scalar(grep { $_ eq 'heavy' } @before), 3, 'behind those that waited'
    or note "@order";
is scalar(grep { $_ eq 'light' } @before), 1, 'another key has its turn'
    or note "@order";

$clock->go;
$proxy->refuse(0);
$t->done;
