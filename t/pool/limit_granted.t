#!/usr/bin/perl

# A request waits for the only server that its node has, and a node with two of
# them gives it back: $dsem_limit is that of the servers of its own node.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my ($one, $two) = map { $t->upstream } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_reuse off;
upstream servers {
    SERVERS
    dsem servers limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Limit $dsem_limit;
    location / {
        proxy_pass http://servers;
    }
}
EOF_CONF

sub node {
    my ($name, @up) = @_;
    my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;
    return $t->node($name, $conf =~ s/SERVERS/$servers/r);
}

my $a = node('a', $one);
my $b = node('b', $one, $two);
my @held = map { $b->begin('/?hang=1') } 1, 2;
wait_for { $one->now == 1 && $two->now == 1 } 15, 'both servers are taken';
my $waits = $a->begin('/');
wait_for { $t->state->waiting('servers') == 1 } 15, 'the request waits';
# the worker has its place
is $t->state->held('servers'), 2, 'for a permit of the other node';
$one->release(1);
is $waits->wait->status, 200, 'served';
is $waits->header('X-Limit'), 1, 'of one server';
$two->release_all;
$_->wait for @held;

$t->done;
