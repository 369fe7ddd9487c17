#!/usr/bin/perl

# A mirror uses the permit of its request, whose answer came from the cache. Its
# server closes the cached connection without an answer, and nginx asks it again:
# the mirror has the permit until then, although the update of the cache, which
# has none, has ended before.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
log_subrequest on;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
upstream servers {
    server 127.0.0.1:%%PORT2%%;
    dsem servers limit=1/server queue=9 timeout=60s;
    keepalive 8;
}
proxy_set_header X-Nonce \$http_x_nonce;
proxy_http_version 1.1;
proxy_set_header Connection "";
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Cache \$upstream_cache_status;
    location / {
        proxy_pass http://servers;
    }
    location /page {
        mirror /mirror;
        proxy_cache cache;
        proxy_cache_key page;
        proxy_cache_use_stale updating;
        proxy_cache_background_update on;
        proxy_pass http://servers;
    }
    location = /mirror {
        internal;
        proxy_pass http://servers/mirror?status=418&hang=1;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    access_log off;
    location / {
        # cached, and stale
        add_header X-Accel-Expires \@1;
        proxy_pass http://@{[ $up->address ]};
    }
    location /mirror {
        proxy_pass http://@{[ $up->address ]};
        proxy_intercept_errors on;
        error_page 418 = \@closed;
    }
    location \@closed {
        return 444;
    }
}
EOF_CONF

sub counts { return $t->state->counts('servers') }

# of the requests and subrequests with this nonce
sub logged {
    my ($nonce) = @_;
    return scalar grep { $_->{http_x_nonce} eq $nonce } $node->access_log;
}

my $fill = $node->begin('/page?t=1', 'X-Nonce' => 'fill');
wait_for { $up->release_all; logged('fill') == 2 } 15, 'the cache is filled';
eventually { counts() eq '0 0' } 'all permits are back';

my $page = $node->begin('/page?t=1', 'X-Nonce' => 'page');
is $page->wait->header('X-Cache'), 'STALE', 'served from the cache';
eventually { logged('page') == 1 && $up->now == 1 } 'updated, mirror runs';
my $next = $node->begin('/next?t=1');
eventually { counts() eq '1 1' } 'with the permit: the next request waits';

my $served = $up->served;
$up->release(1);
eventually { $up->served > $served && $up->now == 1 } 'the mirror runs again';
is counts(), '1 1', 'with the permit: the next request waits';
# perhaps over another cached connection
eventually { $up->release(1); counts() ne '1 1' } 'it ends';
is $next->wait->status, 200, 'and the next request runs';
eventually { counts() eq '0 0' } 'all permits are back';

$t->done;
