#!/usr/bin/perl

# A map that is evaluated for "dsem" has captures of its own: those of the
# location stay, in all of that value, in those that follow and in "proxy_pass".

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
    map $http_x_class $class {
        "~^(g)old" "gold";
        "~^(silver)" "silver";
        default "std";
    }
    map $http_x_class $evaluated {
        volatile;
        "~^(silver.*)$" "silver";
        default "std";
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location ~ ^/first$ {
            dsem "first:$class" limit=10;
            add_header X-One "[$1]";
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ ^/v1/([^/]+)/(.*)$ {
            dsem $tenant limit=10;
            dsem "svc:$1:$2" limit=$limit queue=1 fair=$1;
            add_header X-Key $dsem_key;
            proxy_pass http://%%UPSTREAM%%/$2?of=$1&$args;
        }
        location ~ ^/v2/([^/]+)/(.)(.*)$ {
            dsem "$1:$class" limit=10 queue=1 "fair=$class$2:$3$class";
            add_header X-Name $dsem_name;
            add_header X-Key $dsem_key;
            add_header X-Same "$1:$class $class$2:$3$class";
            proxy_pass http://%%UPSTREAM%%;
        }
        location ~ ^/v3/(.*)$ {
            dsem "$1:$evaluated" limit=10;
            add_header X-Name $dsem_name;
            proxy_pass http://%%UPSTREAM%%;
        }
        location = /none {
            dsem "none:$1:$class" limit=10;
            add_header X-Name $dsem_name;
            add_header X-One "[$1]";
            proxy_pass http://%%UPSTREAM%%;
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

# in the same value, too, whether the map matches or not

for my $class ('other', 'silver', '') {
    my $of = $class eq 'silver' ? 'silver' : 'std';
    for (1 .. 3) {
        my $answer = $node->get("/v2/tenant$_/big", 'X-Class' => $class);
        is $answer->header('X-Name'), "tenant$_:$of", "the name: '$class'";
        is $answer->header('X-Key'), "${of}b:ig$of", 'and the key';
        is $answer->header('X-Same'), "tenant$_:$of ${of}b:ig$of",
            'what nginx has for a header';
    }
}

# one that is evaluated each time it is asked for

for my $class ('silver', 'silver' . 'x' x 3000) {
    is $node->get('/v3/tenant', 'X-Class' => $class)->header('X-Name'),
        'tenant:silver', 'volatile: ' . length $class;
}

# no captures beside those of the map

is $node->get('/none', 'X-Class' => 'silver')->header('X-Name'), 'none::silver',
    'a name with none';
is $node->get($_, 'X-Class' => 'silver')->header('X-One'), '[]',
    "no captures: $_" for '/first', '/none', '/plain';

$t->done;
