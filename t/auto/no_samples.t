#!/usr/bin/perl

# Requests that tell nothing of the backend are no samples: those answered by
# nginx itself or from a cache, and connections that were upgraded. The limit
# would be raised because of them, or the latency without load be wrong.

use lib 't/lib';
use Dsem::Test;
use Dsem::Wait qw(poll);

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
server {
    listen 127.0.0.1:%%PORT%%;
    dsem api limit=auto queue=20;
    location /gif {
        empty_gif;
    }
    location /cached {
        proxy_cache cache;
        proxy_cache_valid 200 1m;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /upgraded {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /sent {
        dsem off;
        proxy_pass http://%%UPSTREAM%%/away;
        proxy_intercept_errors on;
        error_page 418 = /gif;
    }
    location /proxied {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $key = $t->state->auto_key('api');

is $node->get('/cached')->status, 200, 'from the backend';
eventually { samples() } 'a sample';

$redis->cmd('DEL', $key);
is $node->get('/gif')->status, 200, 'of nginx itself' for 1 .. 5;
is $node->get('/cached')->status, 200, 'from the cache' for 1 .. 5;
is $up->served, 1, 'none of them reached the backend';
is $node->get('/sent?status=418')->status, 200, 'redirected from a backend';
my $socket = $node->raw->send("GET /upgraded HTTP/1.1\r\nHost: a\r\n"
    . "Upgrade: echo\r\nConnection: upgrade\r\n\r\n");
like $socket->read_until(qr/\r\n\r\n/), qr/ 101 /, 'upgraded';
$socket->close;
eventually { $up->now == 0 } 'connection closed';

# a sample takes 100 ms at most to be sent
ok !poll(\&samples, 0.5), 'no sample';

my $again = $node->get('/proxied');
is $again->status, 200, 'from the backend again';
eventually { samples() } 'a sample again';

# an aborted one took at least that long: it counts if that is long
$redis->cmd('DEL', $key);
my $aborted = $node->begin('/proxied?hang=1');
wait_for { $up->now == 1 } 15, 'a request';
my $long = now + 0.5 + 2 * $again->latency;
wait_for { now > $long } 60, 'it to be long';
$aborted->abort;
eventually { samples() } 'a long aborted request is a sample';

$t->done;

sub samples { return $redis->cmd('EXISTS', $key) }
