#!/usr/bin/perl

# $dsem_server is that of the permit: a request of a pool that is redirected to
# a location with other permits has none any more.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
upstream pool {
    server %%UPSTREAM%%;
    dsem pool limit=1/server;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server "$dsem_name $dsem_server" always;
    location /pool {
        proxy_intercept_errors on;
        error_page 418 = @other;
        error_page 420 = @unlimited;
        error_page 424 = @pool;
        proxy_pass http://pool;
    }
    location @other {
        dsem other limit=1;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location @unlimited {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location @pool {
        proxy_pass http://pool;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    return 200 "elsewhere\n";
}
EOF_CONF

my $server = $up->address;
is(server(''), "pool $server", 'server of the permit');
is(server('?status=418'), 'other ', 'a permit without a server');
is(server('?status=420'), "pool $server", 'no other permit');
is(server('?status=424'), "pool $server", 'the same permit');

done_testing();

sub server { $node->get("/pool$_[0]")->header('X-Server') }
