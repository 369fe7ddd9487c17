#!/usr/bin/perl

# grpc_pass: a call is counted from its head to its trailers, be it one
# answer, a stream, refused by the backend, reset by the client, or ended
# with the connection. The client's body is streamed and not waited for.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

# the second server is the gRPC backend, and tells the oracle what it serves
my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
server {
    listen 127.0.0.1:%%PORT%% http2;
    location / {
        dsem one limit=2 queue=100 timeout=30s;
        grpc_pass grpc://backend;
    }
    location /impatient {
        dsem one limit=2;
        grpc_pass grpc://backend;
    }
    location /nobody {
        dsem one limit=2 queue=100 timeout=30s;
        grpc_pass grpc://127.0.0.1:%%PORT3%%;
    }
    location /slow {
        dsem one limit=2 queue=100 timeout=30s;
        grpc_read_timeout 200ms;
        grpc_pass grpc://backend;
    }
}
upstream backend {
    server 127.0.0.1:%%PORT2%%;
    keepalive 4;
}
server {
    listen 127.0.0.1:%%PORT2%% http2;
    location / {
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $h2 = Dsem::Http2->new($node->raw);

# calls of every kind

my %calls = ('/' => 200, '/?size=5000' => 200, '/?stream=5&every=5' => 200,
    '/?status=204' => 204, '/?status=404' => 404, '/?close=1' => 502,
    '/nobody' => 502, '/slow?hang=1' => 504);
for my $path (sort keys %calls) {
    my @streams = map { $h2->get($path) } 1 .. 6;
    is_deeply([map { $h2->status($_) } @streams], [($calls{$path}) x 6],
        "$path: six at once");
    eventually { state() eq '0 0' } 'nothing left';
}
is($up->peak, 2, 'two at a time');

# counted from the first byte to the last

$up->reset;
my @held = map { $h2->get('/?hang=1') } 1, 2;
wait_for { $up->now == 2 };
my $streamed = $h2->get('/?stream=20&every=20');
my $waiting = $h2->get('/?hang=1');
eventually { state() eq '2 2' } 'two calls queued';
is($h2->status($h2->get('/impatient')), 503, 'impatient call rejected');
$h2->rst($waiting);
eventually { state() eq '2 1' } 'waiting call removed';
$h2->rst($held[0]);
eventually { $up->started == 3 } 'next call served';
is($h2->status($streamed), 200, 'a stream served');
eventually { state() eq '1 0' } 'one permit held';
my $other = Dsem::Http2->new($node->raw);
$other->get('/?hang=1') for 1 .. 3;
eventually { state() eq '2 2' && $up->now == 2 } "new connection's calls";
$other->close;
eventually { state() eq '1 0' && $up->now == 1 } 'calls ended with connection';
$up->release_all;
is($h2->status($held[1]), 200, 'last call served');
eventually { state() eq '0 0' } 'nothing left';

# a client that streams: served before its first byte, counted to its last

my ($stream, $head) = $h2->request('/?t=1');
substr $head, 4, 1, chr 4;      # END_HEADERS, but not END_STREAM
$h2->send($head);
eventually { $up->now == 1 } 'served before its body';
my $data = join '', map { Dsem::Http2::frame('DATA', 0, $stream, $_) } 1 .. 9;
$h2->send($data);
is(state(), '1 0', 'streaming call counted');
$h2->send(Dsem::Http2::frame('DATA', 1, $stream, 'end'));
is($h2->status($stream), 200, 'streaming call completed');
eventually { state() eq '0 0' } 'nothing left';
$h2->close;

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
