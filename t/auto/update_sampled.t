#!/usr/bin/perl

# A stale response comes from the cache, and a subrequest updates that in the
# background, with the permit of the request: it is the sample.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Cache \$upstream_cache_status;
    location /page {
        dsem api limit=auto;
        proxy_cache cache;
        proxy_cache_key page;
        proxy_cache_use_stale updating;
        proxy_cache_background_update on;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location / {
        # cached, and stale
        add_header X-Accel-Expires \@1;
        proxy_pass http://@{[ $up->address ]};
    }
}
EOF_CONF

my $key = $t->state->auto_key('api');
sub samples { return $redis->cmd('EXISTS', $key) }

is $node->get('/page')->header('X-Cache'), 'MISS', 'from the backend';
eventually { samples() } 'a sample';

$redis->cmd('DEL', $key);
is $node->get('/page')->header('X-Cache'), 'STALE', 'from the cache';
eventually { $up->served == 2 } 'updated';
eventually { samples() } 'a sample of the update';

$t->done;
