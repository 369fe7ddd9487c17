#!/usr/bin/perl

# Subrequests, redirects, a tunnel and other protocols reach a pool with the
# permit of their request, or as their balancing method says. The pool of a
# location is that of the module that answers there.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $other = $t->upstream;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
upstream gpus {
    $servers
    dsem "gpus of/a b" limit=1/server queue=10 timeout=60s;
}
upstream others {
    server @{[ $other->address ]};
    dsem others limit=1/server queue=10 timeout=60s;
}
map \$arg_pool \$pool {
    default gpus;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_http_version 1.1;
    add_header X-Server "\$dsem_server \$upstream_addr" always;
    location /plain {
        proxy_pass http://gpus;
    }
    location /authorized {
        auth_request /auth;
        proxy_pass http://gpus;
    }
    location = /auth {
        internal;
        proxy_pass http://others/auth;
        proxy_pass_request_body off;
    }
    location /same {
        error_page 500 = \@same;
        proxy_intercept_errors on;
        proxy_pass http://gpus;
    }
    location \@same {
        rewrite ^ /again break;
        proxy_pass http://gpus;
    }
    location /other {
        error_page 500 = \@other;
        proxy_intercept_errors on;
        proxy_pass http://gpus;
    }
    location \@other {
        rewrite ^ /again break;
        proxy_pass http://others;
    }
    location /tunnel {
        proxy_set_header Upgrade \$http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_pass http://gpus;
    }
    location /if {
        if (\$arg_pool) {
            proxy_pass http://gpus;
        }
    }
    location /inherits {
        proxy_pass http://gpus;
        if (\$arg_pool) {
            add_header X-Set "\$dsem_server \$upstream_addr" always;
        }
    }
    location /replaces {
        scgi_pass others;
        if (\$arg_pool) {
            proxy_pass http://gpus;
        }
    }
    location /below {
        set \$memcached_key key;
        memcached_pass others;
        location /below/it {
            proxy_pass http://gpus;
            if (\$arg_pool) {
                add_header X-Set "\$dsem_server \$upstream_addr" always;
            }
        }
    }
    location /except {
        limit_except HEAD {
            proxy_pass http://gpus;
        }
        proxy_pass http://others;
    }
    location /variable {
        proxy_pass http://\$pool;
    }
}
EOF_CONF

my @addresses = map { $_->address } @up;

sub at_its_server {
    my ($request, $name) = @_;
    like $request->header('X-Server'), qr/^(\S+) (?:\S+ : )?\1$/,
        "$name: at the server of its permit"
        or diag $request->status . ' ' . $request->header('X-Server');
    return $request;
}

is at_its_server($node->get('/plain'), 'any name of a pool')->status, 200,
    'served';

is at_its_server($node->get('/authorized'), 'auth_request')->status, 200,
    'served';
is $other->served, 1, 'its subrequest is not limited';

is at_its_server($node->get('/if?pool=gpus'), 'in an "if"')->status, 200,
    'served';

is at_its_server($node->get('/except'), 'in a "limit_except"')->status, 200,
    'served';

# an "if" has the upstreams of its location, and passes to one of them at most

for (
    [ '/inherits?pool=gpus', 'in an "if" that passes nothing', 'X-Set' ],
    [ '/replaces?pool=gpus', 'in an "if" that passes elsewhere', 'X-Server' ],
    [ '/below/it', 'below a "memcached_pass"', 'X-Server' ],
    [ '/below/it?pool=gpus', 'in an "if" below it', 'X-Set' ],
) {
    my ($path, $name, $header) = @$_;
    my $request = $node->begin($path . ($path =~ /\?/ ? '&' : '?') . 'hang=1');
    wait_for { $request->done || grep { $_->now } @up } 15, $name;
    is $t->state->counts('others'), '0 0', "$name: no permit of another pool";
    $_->release_all for @up;
    is $request->wait->status, 200, "$name: served";
    like $request->header($header), qr/^(\S+) \1$/, 'at its server';
}

# a redirect keeps the permit of the same pool, and its server

my $request = $node->get('/same?status=500');
is $request->status, 500, 'redirected within the pool';
at_its_server($request, 'redirected');

# to another pool

$other->reset;
$request = $node->get('/other?status=500');
is $other->started, 1, 'redirected to another pool';

# a tunnel has its permit as long as it lasts

my $tunnel = $node->raw;
$tunnel->send("GET /tunnel HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n"
    . "Connection: upgrade\r\n\r\n");
like $tunnel->read_until(qr/\r\n\r\n/), qr/ 101 /, 'upgraded';
my $held = $node->begin('/plain?hang=1');
eventually { $up[0]->now == 1 && $up[1]->now == 1 } 'the other server is next';
my $waits = $node->begin('/plain');
eventually { $t->state->waiting('gpus%20of%2Fa%20b') == 1 } 'the third waits';
$tunnel->close;
is $waits->wait->status, 200, 'served when the tunnel has ended';
$_->release_all for @up;
is $held->wait->status, 200, 'request ended';

# the target is a variable: it must not get there uncounted

is $node->get('/variable')->status, 500, 'no way past the limit';
is scalar($node->grep_log(qr/\[error\].*has no permit/)), 1, 'and logged';
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;

$t->done;
