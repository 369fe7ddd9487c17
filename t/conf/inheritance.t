#!/usr/bin/perl

# dsem lines are inherited only by a level that has none of its own, and "off"
# ends inheritance for a level and those below.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    proxy_set_header X-Sem $dsem_name;
    dsem "http" limit=10;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /inherits {
            proxy_pass http://%%UPSTREAM%%;
        }
        location /replaces {
            dsem "location" limit=10;
            proxy_pass http://%%UPSTREAM%%;
            location /replaces/inherits {
                proxy_pass http://%%UPSTREAM%%;
            }
            location /replaces/replaces {
                dsem nested limit=10;
                proxy_pass http://%%UPSTREAM%%;
            }
        }
        location /off {
            dsem off;
            proxy_pass http://%%UPSTREAM%%;
            location /off/inherits {
                proxy_pass http://%%UPSTREAM%%;
            }
            location /off/on {
                dsem again limit=10;
                proxy_pass http://%%UPSTREAM%%;
            }
        }
        location /if {
            if ($arg_new) {
                proxy_pass http://%%UPSTREAM%%;
            }
            proxy_pass http://%%UPSTREAM%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT2%%;
        dsem "server" limit=10;
        location /inherits {
            proxy_pass http://%%UPSTREAM%%;
        }
        location /replaces {
            dsem "location" limit=10;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /off {
            dsem off;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT3%%;
        dsem off;
        location /inherits {
            proxy_pass http://%%UPSTREAM%%;
        }
        location /on {
            dsem on limit=10;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my @expected = (
    [1, '/inherits', 'http'],
    [1, '/replaces', 'location'],
    [1, '/replaces/inherits', 'location'],
    [1, '/replaces/replaces', 'nested'],
    [1, '/off', ''],
    [1, '/off/inherits', ''],
    [1, '/off/on', 'again'],
    [1, '/if?new=1', 'http'],
    [2, '/inherits', 'server'],
    [2, '/replaces', 'location'],
    [2, '/off', ''],
    [3, '/inherits', ''],
    [3, '/on', 'on'],
);
for my $case (@expected) {
    my ($server, $path, $name) = @$case;
    $up->reset;
    my $request = $t->client->get('http://127.0.0.1:' . $node->port($server)
        . $path);
    is($request->status, 200, 'request served');
    is(($up->log)[0]{sem}, $name, "server $server, $path");
    is($node->logged($request)->{dsem_status}, $name eq '' ? '' : 'PASSED',
        'only limited requests counted');
}

# the name in the variable is the name in Redis

for my $case (grep { $_->[2] ne '' } @expected) {
    my ($server, $path, $name) = @$case;
    $up->reset;
    my $held = $t->client->start('http://127.0.0.1:' . $node->port($server)
        . $path . ($path =~ /\?/ ? '&' : '?') . 'hang=1');
    wait_for { $up->now == 1 };
    is_deeply([$t->state->names], [$name], "only $name is taken");
    $up->release_all;
    $held->wait;
    wait_for { !$t->state->names };
}

done_testing();
