#!/usr/bin/perl

# Every turn of a worker's event loop takes 0.4 s, so that most of its timers
# are late. It notices each time that Redis does not reply.

use lib 't/lib';
use Dsem::Lua;
use Dsem::Test;

my $lua = lua_modules;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', LUA => $lua, REDIS => $proxy->address);
%%LUA%%
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 1s;
    dsem_redis_timeout 1s;
    dsem_node %%NODE%%;
    init_worker_by_lua_block {
        local function turn()
            ngx.update_time()
            local ends = ngx.now() + 0.2
            while ngx.now() < ends do ngx.update_time() end
            -- later than now: else nginx runs it in the same turn
            ngx.timer.at(0.02, turn)
        end
        ngx.timer.at(0, turn)
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=2 queue=10 timeout=60s;
            dsem_on_error pass;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

eventually { $node->get('/?t=1')->status == 200 } 'request served';
wait_for { $t->state->session_count == 1 } 30, 'the session';
for my $round (1 .. 2) {
    $node->clear_logs;
    $proxy->freeze;
    eventually { $node->grep_log(qr/unavailable \(no reply in time\)/) }
        'no reply: redis unavailable', 20;
    is $node->get('/?t=1')->status, 200, 'no reply: request passed';
    $proxy->thaw;
    eventually { $node->grep_log(qr/available again/) } 'available again', 30;
}

$t->done;
