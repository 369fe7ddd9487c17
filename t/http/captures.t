#!/usr/bin/perl

# A map that is evaluated for "dsem" has captures of its own: those of the
# location stay, in the values that follow and in "proxy_pass".

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    map $uri $limit {
        "~^/v1/(rep)orts/" 5;
        default 20;
    }
    map $uri $tenant {
        "~^/v1/(.)" "tenant_$1";
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location ~ ^/v1/([^/]+)/(.*)$ {
            dsem $tenant limit=10;
            dsem "svc:$1:$2" limit=$limit queue=1 fair=$1;
            add_header X-Key $dsem_key;
            proxy_pass http://%%UPSTREAM%%/$2?of=$1&$args;
        }
        location ~ ^/plain$ {
            dsem "plain" limit=$limit;
            add_header X-One "[$1]";
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $request = $node->begin('/v1/reports/a?hang=1');
wait_for { $up->now == 1 } 15, 'the backend';
is join(' ', sort $t->state->names), 'svc:reports:a tenant_r', 'the names';
$up->release_all;
is $request->wait->status, 200, 'served';
is(($up->log)[-1]{uri}, '/a?of=reports&hang=1', 'what "proxy_pass" has');
is $node->get('/v1/other/b?t=1')->header('X-Key'), 'other', 'the key';
is $node->get('/plain')->header('X-One'), '[]', 'no captures';

$t->done;
