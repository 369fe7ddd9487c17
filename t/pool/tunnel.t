#!/usr/bin/perl

# CONNECT reaches a pool by "tunnel_pass", which stands in a server: each server
# of the pool has one tunnel at a time. Needs nginx 1.31.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Test;

plan skip_all => 'no "tunnel_pass" before nginx 1.31'
    unless nginx_since('1.31');

my $t = Dsem::Test->new;
$t->redis;

# speak no HTTP
my @servers = map {
    IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10,
        Proto => 'tcp') // die "listen: $!";
} 1, 2;
my $servers = join ' ', map { 'server 127.0.0.1:' . $_->sockport . ';' } @servers;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream servers {
    $servers
    dsem servers limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    tunnel_pass servers;
}
EOF_CONF

sub tunnel {
    my $raw = $node->raw;
    $raw->send("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    return $raw;
}

# one that has come to this server
sub accepted {
    my ($server) = @_;
    wait_for { IO::Select->new($server)->can_read(0) } 15, 'a tunnel';
    return scalar $server->accept;
}

my @tunnels = map { tunnel() } 1, 2;
my @ends = map { accepted($_) } @servers;
is scalar(@ends), 2, 'each server has a tunnel';
push @tunnels, tunnel();
eventually { $t->state->counts('servers') eq '2 1' } 'the third waits';
is_deeply [ IO::Select->new(@servers)->can_read(0) ], [], 'at no server';

close $ends[0];
ok accepted($servers[0]), 'it has the server that is free';
eventually { $t->state->counts('servers') eq '2 0' } 'and its permit';

$_->close for @tunnels;
$t->done;
