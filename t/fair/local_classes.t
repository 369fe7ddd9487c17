#!/usr/bin/perl

# While Redis is unavailable priority classes are outside of the worker's fair
# queue, too: what a key has in one class says nothing of its turns in another
# one, and a full queue rejects a request of the worst class, whatever its key.

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
        dsem api limit=1 queue=8 timeout=20s priority=$arg_p fair=$arg_k;
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

# A rejection says that all before it have been read.
my (@all, %is);
sub ask {
    for (@_) {
        my ($k, $p) = @$_;
        my $request = $node->begin("/?k=$k&p=$p&t=2&n=" . @all);
        push @all, $request;
        $is{ $request->nonce } = "$k$p";
    }
}
ask(map({ ['a', -2] } 1 .. 4), ['b', 0], ['b', 0], ['a', 0], ['a', 1]);
is said($node, $node->get('/?k=c&p=2')), '503 REJECTED',
    'worst class rejected by a full queue';

# the key with the longest backlog, and one without any

ask(['a', 0]);
is said($node, $all[7]->wait), '503 REJECTED', 'request of the worst class';
is said($node, $node->get('/?k=c&p=1')), '503 REJECTED',
    'worse class rejected, whatever its key';
ok !$_->done, 'request waits' for @all[0 .. 6, 8];

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @all[0 .. 6, 8];
my @order = map { $is{$_} // () } $up->order;
is_deeply [@order[0 .. 3]], [('a-2') x 4], 'best class first'
    or note "@order";
is $order[5], 'a0', 'in its turn after many of another class'
    or note "@order";
is $up->peak, 1, 'limit reached, never exceeded';

$clock->go;
$proxy->refuse(0);
$t->done;
