#!/usr/bin/perl

# Lua finds the body as it would without a limit: unread, so that a socket of
# the request can read it piece by piece, in whatever phase; or read by an
# earlier phase already.

use lib 't/lib';
use Dsem::Lua;
use Dsem::Test;

my $lua = lua_modules;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF', LUA => $lua);
%%LUA%%
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    dsem one limit=1 queue=10 timeout=30s;
    lingering_close off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_pass http://%%UPSTREAM%%;
        }
        location /socket {
            content_by_lua_block {
                local socket, err = ngx.req.socket()
                if not socket then
                    ngx.say(err)
                    return
                end
                ngx.print(socket:receive(5), "-")
                ngx.flush(true)
                ngx.print(socket:receive(5))
            }
        }
        location /read_body {
            content_by_lua_block {
                ngx.req.read_body()
                ngx.print(ngx.req.get_body_data())
            }
        }
        location /rewrite {
            rewrite_by_lua_block {
                ngx.ctx.body = ngx.req.socket():receive(10)
            }
            content_by_lua_block { ngx.print(ngx.ctx.body) }
        }
        location /access {
            access_by_lua_block {
                ngx.ctx.body = ngx.req.socket():receive(10)
            }
            content_by_lua_block { ngx.print(ngx.ctx.body) }
        }
    }
}
EOF_CONF

my %expected = (
    '/socket' => '01234-56789',
    '/read_body' => '0123456789',
    '/rewrite' => '0123456789',
    '/access' => '0123456789',
);

for my $path (sort keys %expected) {
    my $whole = $node->begin($path, -method => 'POST', -body => '0123456789');
    is($whole->wait->body, $expected{$path}, "$path: body complete");

    my $slow = $node->begin($path, -method => 'POST', 'Content-Length' => 10);
    $slow->raw->send('01234');
    my $begun = now;
    wait_for { now > $begun + 0.05 };
    $slow->raw->send('56789');
    is($slow->wait->body, $expected{$path}, 'slow body complete');
    eventually { state() eq '0 0' } 'no permit held';
}

# from the queue

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 };
my $queued = $node->begin('/socket', -method => 'POST', -body => '0123456789');
eventually { state() eq '1 1' } 'request queued';
$up->release_all;
is($queued->wait->body, '01234-56789', 'body complete');
is($holder->wait->status, 200, 'holder served');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
