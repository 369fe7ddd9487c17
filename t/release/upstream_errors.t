#!/usr/bin/perl

# A failing backend: its connection is closed or reset after every byte of a
# response, or cannot be opened; its response is not HTTP, or too large, or
# cannot be stored. Each ends in 502 or a truncated response, and the only
# permit is free for the next request.

use lib 't/lib';
use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_LINGER);

use Dsem::Client::Raw;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $backend = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10)
    or die "listen: $!";

my $node = $t->node('n1', <<'EOF_CONF', BACKEND => $backend->sockport);
worker_connections 2048;
dsem one limit=1 queue=10 timeout=30s;
proxy_buffer_size 2k;
proxy_buffers 4 2k;
proxy_busy_buffers_size 4k;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /buffered {
        proxy_pass http://127.0.0.1:%%BACKEND%%;
    }
    location /unbuffered {
        proxy_buffering off;
        proxy_pass http://127.0.0.1:%%BACKEND%%;
    }
    location /refused {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /down {
        proxy_pass http://down;
    }
    location /unresolved {
        proxy_pass http://$arg_name:1;
    }
    location /unstored {
        proxy_temp_path %%DIR%%/unstored;
        proxy_pass http://%%UPSTREAM%%;
    }
}
upstream down {
    server 127.0.0.1:%%PORT2%% down;
}
EOF_CONF

# after every byte, FIN and RST

my %answer = (
    counted => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    chunked => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        . "5\r\nhello\r\n0\r\n\r\n",
);
for my $path (qw(/buffered /unbuffered)) {
    for my $name (sort keys %answer) {
        my $answer = $answer{$name};
        my $head = 4 + index $answer, "\r\n\r\n";
        for my $way (qw(FIN RST)) {
            my @wrong;
            for my $bytes (0 .. length $answer) {
                my $status = cut($path, substr($answer, 0, $bytes), $way);
                push @wrong, "$bytes: $status"
                    if $status ne ($bytes < $head ? 502 : 200)
                    && !($way eq 'RST' && $status eq 502);
            }
            is_deeply(\@wrong, [], "$path, $name, $way after every byte");
        }
    }
}
free('after all that');

# responses that are not HTTP, or too large

my %said = (
    nothing => '', garbage => "garbage\r\n\r\n", binary => "\0\1\2\r\n\r\n",
    'no status' => "HTTP/1.1 x\r\n\r\n",
    'bad header' => "HTTP/1.1 200 OK\r\n\0\r\n\r\n",
    'bad length' => "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    'bad chunk' => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
    'header too big' => "HTTP/1.1 200 OK\r\nX: " . 'x' x 4000 . "\r\n\r\n",
    'more than was said' => "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
        . 'x' x 3000,
);
for my $what (sort keys %said) {
    # nginx takes some of them for HTTP/0.9, which has no status
    like(cut('/buffered', $said{$what}, 'FIN'), qr/^(?:502|200|0)$/, $what);
    free($what);
}

# no backend

for my $path ('/refused', '/down', '/unresolved?name=nowhere', '/?close=1',
    '/?rst=1')
{
    my $status = $node->get($path)->status;
    is($status, 502, "$path: 502");
    free($path);
}

# a response that the client does not read and that cannot be stored

my $slow = Dsem::Client::Raw->new('127.0.0.1', $node->port, rcvbuf => 4096);
rmdir $node->dir . '/unstored' or die "rmdir: $!";
$slow->send("GET /unstored?size=9000000 HTTP/1.1\r\nHost: a\r\n\r\n");
eventually { $node->grep_log(qr/\[crit\].*unstored/) }
    'temporary file error logged';
free('before the client reads');
$slow->close;

is($up->peak, 1, 'one at a time');

done_testing();

# Sends a request, lets the backend send these bytes and end; returns the
# status.
sub cut {
    my ($path, $bytes, $way) = @_;
    my $request = $node->begin($path);
    my $conn = $backend->accept;
    sysread $conn, my $asked, 65_536;
    syswrite $conn, $bytes if length $bytes;
    setsockopt $conn, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0
        if $way eq 'RST';
    close $conn;
    return $request->wait->status;
}

# The permit is free for the next request.
sub free {
    my ($what) = @_;
    is($node->get('/?t=1')->status, 200, "next one served: $what");
}
