#!/usr/bin/perl

# A header filter may redirect a request after the response header has passed.
# The dropped upstream ends later than the redirect. This late end releases no
# permit, because the second upstream already uses it.

use lib 't/lib';
use Dsem::Lua;
use Dsem::Test;

my $lua = lua_modules;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem one limit=1 queue=10 timeout=30s;
    lua_load_resty_core off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_pass http://%%UPSTREAM%%;
        }
        location /disliked {
            header_filter_by_lua_block {
                if not ngx.req.is_internal() then return ngx.exit(500) end
            }
            error_page 500 = /second;
            proxy_set_header X-Nonce $http_x_nonce;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /second {
            proxy_pass http://%%UPSTREAM%%/?hang=1;
        }
    }
}
EOF_CONF

for my $order (['before', "$lua\n%%GLOBALS%%"], ['after', "%%GLOBALS%%\n$lua\n"]) {
    my ($name, $globals) = @$order;
    $up->reset;
    my $node = $t->node($name, $conf =~ s/%%GLOBALS%%/$globals/r);
    my $first = $node->begin('/disliked?hang=1&size=1000000',
        'X-Nonce' => 'first');
    wait_for { $up->now == 1 };
    my $next = $node->begin('/', 'X-Nonce' => 'next');
    wait_for { state() eq '1 1' };
    $up->release_all;
    eventually { $up->started == 2 && $up->now == 1 }
        "lua $name: request redirected";
    is_deeply([$up->order], ['first', 'first'], 'permit kept before next');
    is(state(), '1 1', 'same permit held');
    my $begun = now;
    wait_for { now > $begun + 0.3 };
    is(state(), '1 1', 'held until its end');
    $up->release_all;
    is($_->wait->status, 200, 'request served') for $first, $next;
    is($up->peak, 1, 'one at a time');
    eventually { state() eq '0 0' } 'no permit held';
    $node->quit;
}

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
