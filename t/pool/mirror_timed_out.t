#!/usr/bin/perl

# A mirror uses the permit of its request, whose answer came from the cache, over a
# cached connection. Its server is silent, and nginx does not ask it again: the
# permit goes back at once, although another mirror still runs elsewhere.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $other = $t->upstream;

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
        mirror /elsewhere;
        proxy_cache cache;
        proxy_cache_key page;
        proxy_cache_use_stale updating;
        proxy_cache_background_update on;
        proxy_pass http://servers;
    }
    location = /mirror {
        internal;
        proxy_read_timeout 1s;
        proxy_pass http://servers/mirror?hang=1;
    }
    location = /elsewhere {
        internal;
        proxy_pass http://@{[ $other->address ]}/mirror?hang=1;
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
}
EOF_CONF

sub counts { return $t->state->counts('servers') }

# of the requests and subrequests with this nonce
sub logged {
    my ($nonce) = @_;
    return scalar grep { $_->{http_x_nonce} eq $nonce } $node->access_log;
}

my $fill = $node->begin('/page?t=1', 'X-Nonce' => 'fill');
wait_for { $_->release_all for $up, $other; logged('fill') == 3 } 15,
    'the cache is filled';
eventually { counts() eq '0 0' } 'all permits are back';

my $page = $node->begin('/page?t=1', 'X-Nonce' => 'page');
is $page->wait->header('X-Cache'), 'STALE', 'served from the cache';
eventually { logged('page') == 2 } 'the mirror has timed out';
is $node->get('/next?t=1')->status, 200, 'the next request runs';
eventually { counts() eq '0 0' } 'all permits are back';
is $other->now, 1, 'the other mirror still runs';
$other->release_all;

$t->done;
