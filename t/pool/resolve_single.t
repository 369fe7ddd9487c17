#!/usr/bin/perl

# A server has failed, and then DNS names no other one: nginx never takes the only
# server for failed, and neither does its pool. Needs "resolve", nginx 1.27.3.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'servers have no "resolve" before nginx 1.27.3'
    unless nginx_since('1.27.3');

my $t = Dsem::Test->new;
$t->redis;
my $port = $t->free_port;
my @up = map { $t->upstream(host => "127.0.0.1$_", port => $port) } 1, 2;
my @ip = map { $_->address =~ s/:.*//r } @up;
my $dns = $t->dns('gpus.dsem.test' => \@ip);

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
resolver %%DNS%% valid=1s ipv6=off;
upstream gpus {
    zone gpus 256k;
    server gpus.dsem.test:$port resolve fail_timeout=1h;
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server "\$dsem_server" always;
    location / {
        proxy_set_header X-Node %%NODE%%;
        proxy_pass http://gpus;
    }
}
EOF_CONF

# the servers of so many requests, one after the other
sub servers {
    my %seen;
    for (1 .. 6) {
        my $request = $node->get('/');
        $seen{ $request->status . ' ' . ($request->header('X-Server') // '') } = 1;
    }
    return join ', ', sort keys %seen;
}

my ($first, $second) = map { '200 ' . $_->address } @up;
eventually { servers() eq "$first, $second" } 'both are used';
$up[0]->refuse('a');
eventually { servers() eq $second } 'one has failed';
$up[0]->refuse('a', 0);
$dns->set('gpus.dsem.test', $ip[0]);
eventually { servers() eq $first } 'it is the only one, and is used';

$t->done;
