#!/usr/bin/perl

# A server sends early hints, and then an answer that "proxy_next_upstream" takes
# for a failure: it is out of service for the node. Needs nginx 1.29.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'no early hints before nginx 1.29'
    unless nginx_since('1.29');

my $t = Dsem::Test->new;
$t->redis;
my $servers = join ' ', map { "server $_ fail_timeout=1h;" }
    map { $t->upstream->address } 1, 2;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server "\$dsem_server" always;
    location / {
        proxy_pass http://gpus;
        proxy_next_upstream error http_503;
    }
}
EOF_CONF

sub answer {
    my ($path) = @_;
    my $raw = $node->raw;
    $raw->send("GET $path HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    my $all = $raw->read_eof;
    my ($status) = $all =~ m{^HTTP/1\.1 (?!103)(\d+)}m;
    my ($server) = $all =~ /^X-Server: (\S+)/m;
    return "$status $server";
}

my ($failed) = answer('/?hints=1&status=503') =~ /^503 (\S+)$/;
ok $failed, 'its answer is passed on';
my %server = map { answer('/?hints=1') => 1 } 1 .. 4;
is scalar(keys %server), 1, 'later requests are for one server';
ok !$server{"200 $failed"}, 'the other one';

$t->done;
