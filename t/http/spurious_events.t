#!/usr/bin/perl

# While a request waits its connection is busy: bytes of the next request come
# in, each with an event to write as well, frames of HTTP/2 open windows and
# change settings. None of that asks a second time, or lets anybody in.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
proxy_set_header X-Nonce $arg_nonce;
proxy_set_header X-Sem $dsem_name;
listen 127.0.0.1:%%PORT2%% http2;
location /waits {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /large {
    proxy_buffers 16 64k;
    proxy_pass http://%%UPSTREAM%%;
}
location /heard {
    return 204;
}
EOF_CONF

sub state { return $t->state->figure('api', $_[0]) }

# What was asked for so far: each ask that is queued has a place of its own.
sub places { state('seq') }

my $holder = $node->begin('/waits?hang=1&nonce=holder');
eventually { $up->now == 1 } 'permit out';
my $other = $node->begin('/waits?nonce=other');
eventually { state('waiting') == 1 } 'request queued';
my $before = places();

# an answer that fills the socket makes nginx wait for events to write, and
# epoll tells of those together with each byte that comes in

my $raw = $node->raw;
my $more = "GET /heard HTTP/1.1\r\nHost: localhost\r\n\r\n";
$raw->send("GET /large?size=8000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
wait_for { $up->started == 2 } 15, 'large response started';
my $size = 0;
wait_for { ($size += length $raw->read(0)) > 8_000_000 } 10,
    'large response complete';
$raw->send("GET /waits?nonce=one HTTP/1.1\r\nHost: localhost\r\n\r\n");
eventually { state('waiting') == 2 } 'request queued behind response';
for my $byte (split //, $more x 5) {
    $raw->send($byte);
    $node->get('/heard');
}
is state('waiting'), 2, 'bytes: no further ticket';
is places(), $before + 1, 'bytes: one place taken';

# HTTP/2

my $h2 = Dsem::Http2->new($node->raw(2));
my $stream = $h2->get('/waits?nonce=two');
eventually { state('waiting') == 3 } 'stream queued';
my ($WINDOW_UPDATE, $PRIORITY) = (8, 2);

sub frame {
    my ($type, $on, $payload) = @_;
    return substr(pack('N', length $payload), 1)
        . pack('CCN', $type, 0, $on) . $payload;
}

for my $n (1 .. 200) {
    $h2->send(join '',
        frame($WINDOW_UPDATE, $stream, pack 'N', 1),
        frame($WINDOW_UPDATE, 0, pack 'N', 1),
        frame($PRIORITY, $stream, pack 'NC', 0, $n),
        Dsem::Http2::frame('SETTINGS', 0, 0, pack 'nN', 4, 65_535 + $n),
        Dsem::Http2::frame('PING', 0, 0, pack 'NN', 0, $n));
    $h2->read;
}
is $h2->status($h2->get('/heard')), 204, 'all frames are read';
ok !$h2->ended($stream), 'frames: stream still queued';
is state('waiting'), 3, 'frames: no further ticket';
is places(), $before + 2, 'frames: one place taken';
is $up->now, 1, 'only holder at backend';

$up->release_all;
is $holder->wait->status, 200, 'holder served';
is $other->wait->status, 200, 'next request served';
like $raw->read_until(qr/ 204 .* 204 /s), qr/^HTTP\S+ 200 .* 204 /s,
    'pipelined requests served';
is $h2->status($stream), 200, 'stream served';
is_deeply [ grep { $_ ne '' } map { $_->{nonce} } grep { $_->{uri} !~ /large/ }
    $up->log ], [qw(holder other one two)], 'each served once, in order';
is $up->peak('api'), 1, 'limit reached, never exceeded';
$h2->close;
$raw->close;

$t->done;
