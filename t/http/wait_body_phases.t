#!/usr/bin/perl

# A body is waited for wherever the request is limited: after access control,
# after "satisfy any", beside a mirror, after a redirect, and once only. The
# upstream gets it whole, and what comes behind it on the connection is the
# next request.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
proxy_http_version 1.1;
proxy_set_header Connection "";
root %%DIR%%/nothing;
server {
    listen 127.0.0.1:%%PORT%%;
    location /plain {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /two_lines {
        dsem one limit=1 queue=10 timeout=30s;
        dsem two limit=1 queue=10 timeout=30s;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /satisfy_any {
        satisfy any;
        allow 127.0.0.1;
        deny all;
        auth_request /auth;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /auth_request {
        auth_request /auth;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /mirror {
        mirror /mirrored;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /satisfy_any/mirror {
        satisfy any;
        allow all;
        mirror /mirrored;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location @named {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /other {
        dsem other limit=1;
        try_files /nowhere @named;
    }
    location /turn {
        dsem turn limit=10;
        auth_request /auth;
        empty_gif;
    }
    location /auth {
        internal;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /mirrored {
        internal;
        proxy_pass http://127.0.0.1:%%PORT2%%/mirrored;
    }
}
# shows what the upstream gets
log_format body '$uri $request_body';
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    access_log %%DIR%%/bodies.log body;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /auth {
        return 204;
    }
}
EOF_CONF

sub bodies {
    open my $log, '<', $node->dir . '/bodies.log' or return;
    return map { /^(\S+ \d+)$/ } <$log>;
}

my @expected;
for my $path ('/plain', '/two_lines', '/satisfy_any', '/auth_request',
    '/mirror', '/satisfy_any/mirror', '/other')
{
    my $holder = $node->begin('/plain?hang=1');
    wait_for { $up->now == 1 };

    my $client = $node->raw;
    $client->send("POST $path?n=1 HTTP/1.1\r\nHost: a\r\n"
        . "Content-Length: 10\r\n\r\n01234");
    # the worker has the reply to what it would have asked before
    is($node->get('/turn')->status, 200, 'another request meanwhile');
    is(state(), '1 0', "$path: no permit requested");
    $client->send("56789GET /plain?n=2 HTTP/1.1\r\nHost: a\r\n"
        . "Connection: close\r\n\r\n");
    eventually { state() eq '1 1' } "$path: permit requested after body";

    $up->release_all;
    is($holder->wait->status, 200, 'request served');
    my @answers = $client->read_eof =~ m{^HTTP/1\.1 (\d+)}mg;
    is("@answers", '200 200', 'both requests served');
    push @expected, "$path 0123456789";
    push @expected, '/mirrored 0123456789' if $path =~ /mirror/;
    wait_for { bodies() >= @expected };
    is_deeply([sort(bodies())], [sort @expected], 'upstream has the body');
    wait_for { state() eq '0 0' };
}
done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
