#!/usr/bin/perl

# A limit for each server of a pool holds over all workers of all nodes, with
# one queue: the servers see it reached and never exceeded, and no request
# waits for one of them while another is free.

use lib 't/lib';
use Dsem::Test;

my @LIMITS = (1, 1, 2);

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } @LIMITS;
my $servers = join ' ', map {
    'server ' . $up[$_]->address . " max_conns=$LIMITS[$_];"
} 0 .. $#up;

my @nodes = $t->fleet(2, <<"EOF_CONF");
worker_processes 2;
upstream gpus {
    zone gpus 64k;
    least_conn;
    $servers
    dsem gpus limit=2/server queue=100 timeout=60s;
    keepalive 8;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        add_header X-Server "\$dsem_server \$upstream_addr";
    }
}
EOF_CONF

# each server once, then the larger one again, and the next waits

my @held = map { $nodes[ $_ % 2 ]->begin('/?hang=1') } 1 .. 4;
eventually {
    "@{[ map { $_->now } @up ]}" eq "@LIMITS"
} 'each server has what it can take';
my $waits = $nodes[0]->begin('/');
eventually { $t->state->counts('gpus') eq '4 1' } 'one request waits';
is join(' ', map { $_->started } @up), "@LIMITS", 'it is at no server';
$up[1]->release(1);
is $waits->wait->status, 200, 'served';
my $address = $up[1]->address;
is $waits->header('X-Server'), "$address $address",
    'at the server that was free first, which $dsem_server names';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;

# under load

my $load = $t->load(urls => [ map { $_->url('/?t=10') } @nodes ],
    clients => 24, requests => 600, timeout => 60);
is_deeply [ keys %{ $load->{statuses} } ], [200], 'all served'
    or diag explain $load->{statuses};
for (0 .. $#up) {
    is $up[$_]->peak, $LIMITS[$_], 'limit of a server reached, not exceeded';
    cmp_ok $up[$_]->served, '>', 50, 'it had its part';
}

$t->done;
