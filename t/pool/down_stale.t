#!/usr/bin/perl

# A server of a pool answers with a failure, and the client gets a stale page of
# the cache: the server is out of service all the same, and its permit does not
# stay for the next request.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { "server $_ fail_timeout=1h;" }
    map { $_->address } @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_lease 60s;
dsem_reuse 60s;
proxy_cache_path %%DIR%%/cache keys_zone=pages:1m;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server \$upstream_addr always;
    add_header X-Cache \$upstream_cache_status always;
    location / {
        proxy_pass http://gpus;
    }
    location /page {
        proxy_cache pages;
        proxy_cache_key page;
        proxy_cache_valid 200 1s;
        proxy_cache_use_stale http_503;
        proxy_next_upstream error http_503;
        proxy_pass http://gpus;
    }
    location /dsem/ { dsem_api; }
}
EOF_CONF

sub idle {
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    return $all->{semaphores}[0]{local}{idle};
}

is $node->get('/page')->header('X-Cache'), 'MISS', 'a page for the cache';
eventually { idle() == 1 } 'a permit stays';
my $expired = now + 2.1;
wait_for { now > $expired } 15, 'the page to expire';

my $request = $node->get('/page?status=503');
is $request->status, 200, 'the client gets a page';
is $request->header('X-Cache'), 'STALE', 'of the cache';
my $failed = $request->header('X-Server');
is scalar(grep { $_->address eq $failed } @up), 1, 'a server has answered';
is idle(), 0, 'its permit does not stay';

for my $n (1 .. 4) {
    my $served = $node->get('/');
    is $served->status, 200, "request $n is served";
    isnt $served->header('X-Server'), $failed, 'by the other server';
}

$node->quit;
eventually { !$t->state->exists('gpus') } 'all permits back';

$t->done;
