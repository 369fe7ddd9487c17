#!/usr/bin/perl

# The queue of a pool has classes and keys, as any: the better class is first,
# inside a key requests are served in order of arrival, and a key with few
# requests does not wait for all of another.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=100 timeout=60s priority=\$arg_p fair=\$arg_k;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / { proxy_pass http://gpus; }
}
EOF_CONF

my @held = map { $node->begin('/?k=other&hang=1') } @up;
eventually { join(' ', map { $_->now } @up) eq '1 1' } 'all are full';

my (@all, %asked);
for (map({ [ 'many', 0 ] } 1 .. 6), map({ [ 'few', 0 ] } 1, 2), [ 'many', -1 ]) {
    my ($key, $class) = @$_;
    my $request = $node->begin("/?k=$key&p=$class&t=1");
    push @{ $asked{"$key $class"} }, $request->nonce;
    push @all, $request;
    eventually { $t->state->waiting('gpus') == @all } 'in the queue';
}

# one server has them all, the other one none
$up[0]->release(1);
is $_->wait->status, 200, 'request served' for @all;
is $up[1]->started, 1, 'none at the other server, which is full';

my %of = map { my $key = $_; map { $_ => $key } @{ $asked{$key} } } keys %asked;
my @order = grep { $of{$_} } $up[0]->order;
is $of{ $order[0] }, 'many -1', 'the better class is first';
for my $key ('many 0', 'few 0') {
    is_deeply [ grep { $of{$_} eq $key } @order ], $asked{$key},
        "$key: order of arrival";
}
my ($last) = grep { $of{ $order[$_] } eq 'few 0' } reverse 0 .. $#order;
cmp_ok $last, '<', 7, 'the key with few requests is served among the others';

$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;

$t->done;
