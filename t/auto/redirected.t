#!/usr/bin/perl

# A permit that is kept in an internal redirect: how its request ended at the
# backend is a sample, although the new location has no backend.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
server {
    listen 127.0.0.1:%%PORT%%;
    dsem api limit=auto max=100 queue=200 timeout=30s;
    error_page 500 502 /50x.html;
    location /page {
        proxy_intercept_errors on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /sent {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location = /50x.html {
        empty_gif;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location / {
        add_header X-Accel-Redirect /50x.html;
        return 200;
    }
}
EOF_CONF

my $key = $t->state->auto_key('api');
# a sample is lost where Redis is slow
eventually { $node->get('/sent')->status == 200 && $redis->cmd('EXISTS', $key) }
    'X-Accel-Redirect: a sample';

# half of all requests fail
my $load = $t->load_start(clients => 40, seconds => 600,
    urls => [ map { $node->url("/page?t=20$_") } '', '&status=500' ]);
eventually { reason() == 4 } 'error_page: errors lower the limit', 30;
$load->stop->wait;

$t->done;

# the second field of the state
sub reason {
    return (split ' ', $redis->cmd('HGET', $key, '.') // '0 0')[1];
}
