#!/usr/bin/perl

# Where a request asks for its permit: behind all that may turn it away or
# answer without a backend (a malformed request, rewrite, return, limit_req,
# limit_conn, access control), which takes nothing and waits for nothing; and
# before all that works for it (mirror, try_files, the backend), which nobody
# gets who waits or is refused.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
limit_conn_zone $server_addr zone=conn:64k;
limit_req_zone $server_addr zone=req:64k rate=1r/m;
limit_conn_status 429;
limit_req_status 429;
add_header X-Dsem $dsem_status always;
dsem one limit=1 queue=10 timeout=30s;
server {
    listen 127.0.0.1:%%PORT%%;
    root %%DIR%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }

    # before
    location /return {
        return 200;
    }
    location /rewrite {
        rewrite ^ /return last;
    }
    location /redirect {
        rewrite ^ http://elsewhere/ permanent;
    }
    location /denied {
        deny all;
        try_files /page.html @backend;
    }
    location /denied_mirror {
        deny all;
        mirror /mirrored;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /basic {
        auth_basic x;
        auth_basic_user_file /dev/null;
        try_files /nowhere @backend;
    }
    location /limit_conn {
        limit_conn conn 1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /limit_req {
        limit_req zone=req;
        proxy_pass http://%%UPSTREAM%%;
    }

    # behind
    location /mirror {
        mirror /mirrored;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /mirror_impatient {
        dsem one limit=1;
        mirror /mirrored;
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /mirrored {
        internal;
        proxy_set_header X-Sem mirrored;
        proxy_pass http://%%UPSTREAM%%/;
    }
    location /try_files {
        try_files /page.html =404;
    }
    location /try_files_impatient {
        dsem one limit=1;
        try_files /page.html =404;
    }
    location @backend {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

open my $page, '>', $node->dir . '/page.html' or die "page.html: $!";
print $page "a page\n";
close $page;

is($node->get('/limit_req')->status, 200, 'limit_req: one request allowed');
eventually { state() eq '0 0' } 'permit returned';
my $in_conn = $node->begin('/limit_conn?hang=1');
eventually { $up->now == 1 } 'limit_conn: limit reached';
$up->reset;

# before

my %status = (
    '/return' => 200, '/rewrite' => 200, '/redirect' => 301,
    '/denied' => 403, '/denied_mirror' => 403, '/basic' => 401,
    '/limit_conn' => 429, '/limit_req' => 429, '/mirrored' => 404,
);
for my $path (sort keys %status) {
    my $request = $node->get($path);
    is($request->status, $status{$path}, "$path: answered");
    is($request->header('X-Dsem') // '', '', 'no dsem status');
    cmp_ok($request->took, '<', 15, 'no wait');
}
for my $case (
    ['no protocol', "GET / HTTP/x\r\n\r\n"],
    ['no host', "GET / HTTP/1.1\r\n\r\n"],
    ['bad length', "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"],
    ['two lengths', "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
        . "Content-Length: 2\r\n\r\n"],
    ['outside', "GET /../ HTTP/1.1\r\nHost: a\r\n\r\n"])
{
    my ($what, $bytes) = @$case;
    my $raw = $node->raw;
    like($raw->send($bytes)->read_eof, qr/^HTTP\/1.1 400 /, "400: $what");
}
is(state(), '1 0', 'no ticket waiting');

# behind

is($node->get("/${_}_impatient")->status, 503, "$_: refused")
    for qw(mirror try_files);
my $mirror = $node->begin('/mirror', 'X-Nonce' => 'mirror');
eventually { state() eq '1 1' } 'mirror: waits';
my $file = $node->begin('/try_files');
eventually { state() eq '1 2' } 'try_files: waits';
is($up->started, 0, 'no request at backend');
$up->release_all;
is($in_conn->wait->status, 200, 'holder served');
is($mirror->wait->status, 200, 'mirror: served');
is($file->wait->body, "a page\n", 'try_files: served');
is($file->header('X-Dsem'), 'QUEUED', 'served after a wait');
eventually { $up->served == 3 } 'mirrored once';
is($up->peak('mirrored'), 1, 'mirror not limited itself');
eventually { state() eq '0 0' } 'nothing left';

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
