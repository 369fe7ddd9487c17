#!/usr/bin/perl

# A server of a pool whose answers "proxy_next_upstream" takes for failures is out
# of service for the node, as one that refuses connections: it always has free
# permits, and would get most of the requests. The answers themselves are passed
# on, and others are no failures.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { "server $_ fail_timeout=1h;" }
    map { $_->address } @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
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
    my $request = $node->get($path);
    return join ' ', $request->status, $request->header('X-Server') // '';
}

# the servers of so many requests, one after the other
sub servers {
    my ($n) = @_;
    my %server = map { answer('/') => 1 } 1 .. $n;
    return join ', ', sort keys %server;
}

my @all = sort map { $_->address } @up;
is servers(4), join(', ', map { "200 $_" } @all), 'both servers are used';

my ($failed) = answer('/?status=503') =~ /^503 (\S+)$/;
ok $failed, 'its answer is passed on';
my ($other) = grep { $_ ne $failed } @all;
is servers(4), "200 $other", 'later requests are for the other server';

is answer('/?status=500'), "500 $other", 'an answer that is no failure';
is servers(4), "200 $other", 'its server is used';

is answer('/?status=503'), "503 $other", 'the last server fails';
is answer('/') =~ s/ .*//r, 502, 'none is usable';
is scalar($node->grep_log(qr/no live upstreams/)), 1, 'and logged';

$t->done;
