#!/usr/bin/perl

# A request that its server has redirected is suspended by auth_request, whose
# subrequest uses the permit of that server: it is not given back meanwhile.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
upstream servers {
    server 127.0.0.1:%%PORT2%%;
    dsem servers limit=1/server queue=9 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://servers;
    }
    location /redirected {
        auth_request /auth;
        proxy_pass http://servers;
    }
    location = /auth {
        proxy_pass http://servers/auth?hang=1;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /first {
        add_header X-Accel-Redirect /redirected;
        return 200;
    }
}
EOF_CONF

my $request = $node->begin('/first');
wait_for { $up->now == 1 } 15, 'the subrequest at the server';
my $next = $node->begin('/next');
eventually { $t->state->counts('servers') eq '1 1' } 'the next request waits';
$up->release(1);
is $request->wait->status, 200, 'the first is served';
is $next->wait->status, 200, 'and the next one';
is $up->peak, 1, 'one after the other';

$t->done;
