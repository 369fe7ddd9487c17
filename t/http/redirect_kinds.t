#!/usr/bin/perl

# Every way in which nginx sends a request from one limited location to
# another, where there is one permit: each is served at once, alone or with
# the others around it, one at a time at the backend, and leaves nothing.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
dsem_reuse off;
dsem one limit=1 queue=1000 timeout=30s;
proxy_set_header X-Sem main;
proxy_intercept_errors on;
server {
    listen 127.0.0.1:%%PORT%%;
    root %%DIR%%/html;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /rewritten {
        rewrite ^ /?from=rewritten last;
    }
    location /error_page {
        error_page 404 = /?from=error_page;
    }
    location /intercepted {
        error_page 500 = /?from=intercepted;
        proxy_pass http://%%UPSTREAM%%/?status=500;
    }
    location /intercepted_named {
        error_page 500 = @named;
        proxy_pass http://%%UPSTREAM%%/?status=500;
    }
    location /bad_gateway {
        error_page 502 = @named;
        proxy_pass http://%%UPSTREAM%%/?close=1;
    }
    location /try_files {
        try_files /nowhere /?from=try_files;
    }
    location /try_files_named {
        try_files /nowhere @named;
    }
    location /forbidden {
        deny all;
        error_page 403 = @named;
    }
    location = /index/ {
    }
    location = /index/index.html {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /accel_file {
        proxy_pass http://127.0.0.1:%%PORT2%%/accel/index/page;
    }
    location /accel_proxied {
        proxy_pass http://127.0.0.1:%%PORT2%%/accel/?from=accel;
    }
    location /accel_named {
        proxy_pass http://127.0.0.1:%%PORT2%%/accel@named;
    }
    location = /index/page {
    }
    location /chain {
        recursive_error_pages on;
        error_page 500 = /chain/two;
        proxy_pass http://%%UPSTREAM%%/?status=500;
        location /chain/two {
            error_page 404 = /chain/three;
        }
        location /chain/three {
            error_page 502 = @named;
            proxy_pass http://%%UPSTREAM%%/?close=1;
        }
    }
    location @named {
        proxy_pass http://%%UPSTREAM%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    location /accel {
        rewrite ^/accel(.*)$ $1 break;
        add_header X-Accel-Redirect $uri$is_args$args;
        proxy_pass http://%%UPSTREAM%%/?;
    }
}
EOF_CONF

mkdir $node->dir . '/html';
mkdir $node->dir . '/html/index';
for my $file (qw(index.html page)) {
    open my $fh, '>', $node->dir . "/html/index/$file" or die "$file: $!";
    print $fh "$file\n";
    close $fh;
}

# requests to the backend
my %ways = (
    '/rewritten' => 1, '/error_page' => 1, '/intercepted' => 2,
    '/intercepted_named' => 2, '/bad_gateway' => 1, '/try_files' => 1,
    '/try_files_named' => 1, '/forbidden' => 1, '/index/' => 1,
    '/accel_file' => 1, '/accel_proxied' => 2, '/accel_named' => 2,
    '/chain' => 2,
);

for my $path (sort keys %ways) {
    $up->reset;
    my $request = $node->get($path);
    is($request->status, 200, "$path: served");
    cmp_ok($request->took, '<', 15, 'no wait');
    is($up->served, $ways{$path}, 'expected location answered');
    eventually { state() eq '0 0' } 'nothing left';
}
is($node->get('/accel_file')->body, "page\n", 'X-Accel-Redirect file served');

# others wait for the permit all the time

$up->reset;
my $load = $t->load(urls => [map { $node->url($_) } sort keys %ways],
    clients => 13, requests => 390);
is_deeply($load->{statuses}, { 200 => 390 }, 'all redirects served together');
is($up->peak('main'), 1, 'one at a time');
my %status;
$status{ $_->{dsem_status} }++ for $node->access_log;
cmp_ok($status{QUEUED}, '>', 200, 'most requests queued');
eventually { state() eq '0 0' } 'nothing left';

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
