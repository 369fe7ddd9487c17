#!/usr/bin/perl

# The permit of a pool is for one server: only a try over a cached connection
# that was closed is followed by another one, to the same server. The answer
# of any other try is passed on.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map {
    'server ' . $_->address . ' max_fails=100;'
} @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=10 timeout=60s;
    keepalive 8;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_next_upstream error timeout http_500 non_idempotent;
        add_header X-Server \$dsem_server always;
        add_header X-Tries \$upstream_addr always;
    }
}
EOF_CONF

sub tries { return join ' ', $_[0]->status, $_[0]->header('X-Tries') }
sub at { return join ' ', $_[0], join ', ', ($_[1]) x $_[2] }

# a connection to one of them is cached, the other is taken meanwhile

my $request = $node->get('/');
is $request->status, 200, 'served';
my $held = $node->begin('/?hang=1');
wait_for { $up[0]->now + $up[1]->now == 1 } 15, 'one is taken';
$request = $node->get('/');
my $server = $request->header('X-Server');
my ($up) = grep { $_->address eq $server } @up;
$up->reset;

$request = $node->get('/?rst=1');
is tries($request), at(502, $server, 2),
    'closed on a cached connection: tried again at the same server';
is $up->started, 2, 'which had two requests';
$request = $node->get('/?rst=1');
is tries($request), at(502, $server, 1),
    'closed on a new connection: not tried again';
$request = $node->get('/?status=500');
is tries($request), at(500, $server, 1), 'the answer of the try is passed on';
$request = $node->begin('/?rst=1', -method => 'POST')->wait;
is $request->status, 502, 'so for a request with a body';

# neither is a permit lost, nor has a server more than its own

eventually { $t->state->held('gpus') == 1 } 'its permit is back';
$_->release_all for @up;
is $held->wait->status, 200, 'the other is served';
is scalar(grep { $_->peak > 1 } @up), 0, 'limit of a server not exceeded';

$t->done;
