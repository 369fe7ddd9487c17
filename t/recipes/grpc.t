#!/usr/bin/perl

# Recipe "gRPC": a rejected call has status 200 and grpc-status 8, without a
# body; what the backend answers is passed on. nginx warns of nothing.

use lib 't/lib', 't/run';
use Dsem::Http2;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# a busy machine needs longer to send all requests
my $recipe = recipe('gRPC', 'timeout=2s' => 'timeout=60s',
    'listen 80 http2;' => 'listen 127.0.0.1:%%PORT%% http2;');
$recipe =~ s/listen .*http2; +# since nginx 1\.25\.1: (listen .*)/$1/
    or die "recipe: no listen for newer ones\n" if nginx_since('1.25.1');
my $grpc = Fleet::Conf::semaphore($recipe, 'grpc');

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

# the second server is the gRPC backend, and tells the oracle what it serves;
# the third shows by HTTP/1 what the answer has
my $node = $t->node('n1', <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { worker_connections 2048; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_log_level info;
    upstream backend {
        server 127.0.0.1:%%PORT2%%;
        keepalive 4;
    }
    %%RECIPE%%
    server {
        listen 127.0.0.1:%%PORT2%% http2;
        location / {
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
    server {
        listen 127.0.0.1:%%PORT3%%;
        location / {
            grpc_pass grpc://127.0.0.1:%%PORT%%;
        }
    }
}
EOF_CONF

my ($status, $said) = $t->test_conf(<<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    upstream backend {
        server 127.0.0.1:%%PORT2%%;
    }
    %%RECIPE%%
}
EOF_CONF
is($status, 0, 'valid');
unlike($said, qr/\[(?!notice|info)\w+\]/, 'no warning');

my $h2 = Dsem::Http2->new($node->raw);
is($h2->status($h2->post('/call?t=1', 'question')), 200, 'call served');
is($h2->status($h2->post('/call?status=404', 'question')), 404,
    'answer of the backend passed on');
is($h2->status($h2->post('/call?status=500', 'question')), 500,
    'its error, too');

my @held = map { $h2->get('/call?hang=1') } 1 .. $grpc->{limit};
wait_for { $h2->ping; $up->now == $grpc->{limit} } 15, 'all permits in use';
my @queue = map { $h2->get('/call?hang=1') } 1 .. $grpc->{queue};
my $rejected = wait_for {
    my $call = $h2->post('/call?t=1', 'question');
    $t->state->waiting('grpc') == $grpc->{queue} && $call;
} 15, 'a full queue';
is($h2->status($rejected), 200, 'rejected with status 200');
is($h2->body($rejected), '', 'without a body');

my $shown = $node->client->get('http://127.0.0.1:' . $node->port(3)
    . '/call?t=1');
is($shown->status, 200, 'rejected with status 200');
is($shown->header('grpc-status'), 8, 'RESOURCE_EXHAUSTED');
is($shown->header('grpc-message'), 'no permit of grpc', 'message');
is($shown->header('Content-Type'), 'application/grpc', 'type');

wait_for { $up->release_all; !grep { !$h2->ended($_) } @held, @queue } 30,
    'the rest';
eventually { $t->state->counts('grpc') eq '0 0' } 'nothing left', 30;
is($up->peak, $grpc->{limit}, 'limit never exceeded');
$h2->close;

done_testing();
