#!/usr/bin/perl

# A streamed response (server-sent events, chunks) holds its permit from the
# first piece to the last, although the client already has the status. This is
# true with and without buffering, and whichever side ends the stream.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem s$arg_s limit=1 queue=10 timeout=30s;
proxy_set_header X-Sem s$arg_s;
proxy_set_header X-Nonce $http_x_nonce$arg_nonce;
server {
    listen 127.0.0.1:%%PORT%%;
    listen 127.0.0.1:%%PORT2%% http2;
    location /buffered {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /unbuffered {
        proxy_buffering off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /kept {
        proxy_http_version 1.1;
        proxy_set_header Connection '';
        proxy_set_header X-Sem s$arg_s;
        proxy_buffering off;
        proxy_pass http://kept;
    }
    location /impatient {
        dsem s$arg_s limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
}
upstream kept {
    server %%UPSTREAM%%;
    keepalive 4;
}
EOF_CONF

# all at the same time, each with a semaphore of its own

my ($n, @all) = (0);
for my $path (qw(/buffered /unbuffered /kept)) {
    for my $version (qw(1.0 1.1)) {
        my $name = 's' . ++$n;
        my $stream = $node->begin("$path?stream=60&every=50&s=$n",
            'X-Nonce' => 'stream', -version => $version);
        wait_for { $up->now($name) == 1 };
        my $next = $node->begin("$path?t=1&s=$n", 'X-Nonce' => 'next');
        if ($path ne '/buffered') {
            eventually { $stream->done; $stream->{in} =~ /x{10}/ }
                "$path: first piece is there";
        }
        is($node->get("/impatient?s=$n")->status, 503,
            'other request rejected');
        push @all, [$name, $path, $stream, $next];
    }
}
for my $case (@all) {
    my ($name, $path, $stream, $next) = @$case;
    is($next->wait->status, 200, "$path: next request served");
    is($stream->wait->body, 'x' x 600, 'whole stream received');
    ordered($name, 'stream', 'next');
}

# ended by the client, or by the backend

for my $path (qw(/buffered /unbuffered /kept)) {
    for my $end (qw(close abort)) {
        $up->reset;
        my $stream = $node->begin("$path?stream=10000&every=20",
            'X-Nonce' => 'stream');
        wait_for { $up->now == 1 };
        my $next = $node->begin("$path?t=1", 'X-Nonce' => 'next');
        wait_for { state('s') eq '1 1' };
        $stream->$end;
        is($next->wait->status, 200, "$path: served after $end");
        ordered('s', 'stream', 'next');
    }
}

# the same over HTTP/2

$up->reset;
my $h2 = Dsem::Http2->new($node->raw(2));
my $stream = $h2->get('/unbuffered?stream=20&every=20&nonce=stream');
wait_for { $up->now == 1 };
my $next = $h2->get('/unbuffered?t=1&nonce=next');
is($h2->status($next), 200, 'http/2: next one served');
is($h2->status($stream), 200, 'http/2: whole stream received');
ordered('s', 'stream', 'next');
$up->reset;
$stream = $h2->get('/unbuffered?stream=10000&every=20&nonce=stream');
wait_for { $up->now == 1 };
$next = $h2->get('/unbuffered?t=1&nonce=next');
wait_for { state('s') eq '1 1' };
$h2->rst($stream);
is($h2->status($next), 200, 'http/2: served after a reset');
ordered('s', 'stream', 'next');
$h2->close;

done_testing();

sub ordered {
    my ($name, @nonces) = @_;
    is_deeply([map { $_->{nonce} } grep { $_->{sem} eq $name } $up->log],
        \@nonces, 'served in order');
    is($up->peak($name), 1, 'one at a time');
    eventually { state($name) eq '0 0' } 'nothing left';
}

# permits held and tickets waiting
sub state { return $t->state->counts($_[0]) }
