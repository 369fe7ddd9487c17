#!/usr/bin/perl

# A background update of the cache that a later header filter ends and
# error_page redirects: the permit of its request is released once, when the
# update ends.

use lib 't/lib';
use Dsem::Lua;
use Dsem::Test;

my $lua = lua_modules;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

# loaded before, its filters run after
my $node = $t->node('n1', <<'EOF_CONF', LUA => $lua);
%%LUA%%
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    lua_load_resty_core off;
    proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Cache $upstream_cache_status;
        location / {
            dsem one limit=1 queue=10 timeout=30s;
            proxy_cache cache;
            proxy_cache_key $uri;
            proxy_cache_valid 200 1s;
            proxy_cache_use_stale updating;
            proxy_cache_background_update on;
            header_filter_by_lua_block {
                if ngx.is_subrequest then return ngx.exit(500) end
            }
            error_page 500 = /elsewhere;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /elsewhere {
            proxy_pass http://%%UPSTREAM%%/?t=1;
        }
    }
}
EOF_CONF

is($node->get('/a')->header('X-Cache'), 'MISS', 'page fetched');
my @workers = $node->workers;
$up->reset;

my $cached;
wait_for { ($cached = $node->get('/a')->header('X-Cache')) ne 'HIT' };
is($cached, 'STALE', 'stale page served');
eventually { $up->started == 2 } 'update redirected';
eventually { state() eq '0 0' } 'permit released';
is_deeply([$node->workers], \@workers, 'same workers');
is($node->get('/b')->status, 200, 'next request served');
eventually { state() eq '0 0' } 'no permit held';

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
