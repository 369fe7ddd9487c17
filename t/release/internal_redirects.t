#!/usr/bin/perl

# The end of an upstream response does not end a request that continues
# elsewhere: over X-Accel-Redirect, error_page, the next server of the upstream
# and an upgrade the permit stays, and no other request acquires it. It is
# released at once with the last response.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
lingering_timeout 20s;
upstream two {
    server 127.0.0.1:%%PORT2%%;
    server %%UPSTREAM%% backup;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Nonce $http_x_nonce;
    location /plain {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /accel {
        proxy_pass http://127.0.0.1:%%PORT2%%/accel?hang=1;
    }
    location /intercepted {
        proxy_intercept_errors on;
        error_page 500 = /second;
        proxy_pass http://%%UPSTREAM%%/?hang=1&status=500;
    }
    location /next_upstream {
        proxy_next_upstream http_500;
        proxy_pass http://two/?hang=1&error;
    }
    location /file {
        proxy_intercept_errors on;
        error_page 500 = @file;
        proxy_pass http://%%UPSTREAM%%/?hang=1&status=500;
    }
    location /second {
        proxy_pass http://%%UPSTREAM%%/?hang=1;
    }
    location @file {
        root %%DIR%%;
        try_files /nginx.conf =404;
    }
    location /upgraded {
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_pass http://%%UPSTREAM%%;
    }
}
# redirects after the upstream has responded
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    location / {
        proxy_set_header X-Nonce $http_x_nonce;
        proxy_intercept_errors on;
        add_header X-Accel-Redirect $accel always;
        proxy_pass http://%%UPSTREAM%%$uri?hang=1&status=$status_to_be;
    }
}
map $uri $accel {
    /accel /second;
}
map $uri $status_to_be {
    /accel 200;
    default 500;
}
EOF_CONF

# with bytes behind it that keep nginx from logging it
sub begin {
    my ($path, @header) = @_;
    my $raw = $node->raw;
    $raw->send(join "\r\n", "GET $path HTTP/1.1", 'Host: a',
        'Connection: close', 'X-Nonce: first', @header, '', 'and more');
    return $raw;
}

for my $path ('/accel', '/intercepted', '/next_upstream') {
    $up->reset;
    my $first = begin($path);
    wait_for { $up->now == 1 };
    my $next = $node->begin('/plain', 'X-Nonce' => 'next');
    wait_for { state() eq '1 1' };
    $up->release_all;
    eventually { $up->started == 2 && $up->now == 1 }
        "$path: redirect followed";
    is_deeply([$up->order], ['first', 'first'], 'permit kept before next');
    is(state(), '1 1', 'same permit held');
    $up->release_all;
    my $ended = now;
    is($next->wait->status, 200, 'next request served');
    cmp_ok(took($ended), '<', 10, 'served right after response');
    like($first->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 200/,
        'response complete');
    is($up->peak, 1, 'one at a time');
    eventually { state() eq '0 0' } 'no permit held';
    $first->close;
}

# without a second upstream, the permit is released in the log phase

$up->reset;
my $first = begin('/file');
wait_for { $up->now == 1 };
my $next = $node->begin('/plain');
wait_for { state() eq '1 1' };
$up->release_all;
like($first->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 200/,
    'file served instead');
my $served = now;
wait_for { now > $served + 0.5 };
is(state(), '1 1', 'permit still held');
ok(!$next->done, 'next request queued');
$first->close;
is($next->wait->status, 200, 'served after log phase');

# an upgraded connection

$up->reset;
$first = $node->raw;
$first->send("GET /upgraded HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
    . "Connection: Upgrade\r\n\r\n");
like($first->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 101/,
    'connection upgraded');
$next = $node->begin('/plain?t=1');
wait_for { state() eq '1 1' };
$first->send('one');
is($first->read_until(qr/one/), 'one', 'data echoed');
is($up->now, 1, 'connection at upstream');
is(state(), '1 1', 'permit held');
$up->release_all;
my $ended = now;
is($next->wait->status, 200, 'next request served');
cmp_ok(took($ended), '<', 10, 'served after upstream close');
is($up->peak, 1, 'one at a time');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
