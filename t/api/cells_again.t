#!/usr/bin/perl

# Many names at one time have used all cells that the zone has for figures, and are
# gone. What a worker has that starts afterwards is in the figures of the node,
# though the old one, which drains, keeps the cells that it may use again.

use lib 't/lib';
use Dsem::Test;
use JSON::PP;

# more than 64k have room for
my $NAMES = 400;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
worker_connections 2048;
dsem_max_waiting 1000;
dsem_zone_size 64k;
dsem_reuse off;
location / {
    dsem $arg_n limit=5;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF

sub shown {
    my ($name) = @_;
    my $local = decode_json($node->get("/dsem/semaphores/$name")->body)
        ->{semaphore}{local};
    return $local->{in_use} // 'none';
}

my @many = map { $node->begin("/?n=many$_&hang=1") } 1 .. $NAMES;
wait_for { $up->now == $NAMES } 30, 'a request of each name';
$up->release_all;
$_->wait for @many;
wait_for { !grep { /many/ } @{ $redis->cmd('KEYS', '*') } } 30, 'all gone';

my @names = map { "late$_" } 1 .. 6;
my @runs = $node->begin('/?n=early&hang=1');
wait_for { $up->now == 1 } 15, 'a request in the old worker';
eventually { shown('early') eq '1' } 'early: shown', 60;
my ($old) = $node->workers;
$node->reload;
wait_for { grep { $_ == $old } $node->draining } 15, 'the old worker to drain';
push @runs, map { $node->begin("/?n=$_&hang=1") } @names;
wait_for { $up->now == @runs } 15, 'requests in the new worker';
eventually { shown($_) eq '1' } "$_: shown" for @names;

$up->release_all;
$_->wait for @runs;
$t->done;
