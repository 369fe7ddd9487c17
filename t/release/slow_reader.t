#!/usr/bin/perl

# A client that reads slowly, or not at all, holds no permit once nginx has the
# complete response. While the response still comes from the upstream at the
# client's pace, the permit is held.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_http_version 1.1;
    location /response {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /response/sendfile {
        sendfile on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /response/unbuffered {
        proxy_buffering off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /log {
        dsem_release log;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /found {
        dsem found limit=auto;
        dsem_release log;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# more than the kernel buffers for a client that reads nothing
my $SIZE = 16_000_000;

sub slow_reader {
    my ($path) = @_;
    my $raw = $node->raw;
    $raw->send("GET $path?size=$SIZE HTTP/1.1\r\nHost: a\r\n"
        . "Connection: close\r\n\r\n");
    return $raw;
}

# reads the rest; returns its size
sub rest {
    my ($reader) = @_;
    my $bytes = 0;
    $bytes += length $reader->read until $reader->eof;
    return $bytes;
}

for my $path ('/response', '/response/sendfile') {
    $up->reset;
    my $reader = slow_reader($path);
    wait_for { $up->started == 1 };
    my $next = $node->begin('/response?t=1');
    is($next->wait->status, 200, "$path: next request served");
    my ($first, $second) = $up->log;
    cmp_ok(took($first->{end}, $second->{start}), '<', 15,
        'served after upstream end');
    eventually { held() == 0 } 'no permit held';
    is(scalar(grep { $_->{request_uri} =~ /size/ } $node->access_log), 0,
        'slow request still running');
    cmp_ok(rest($reader), '>', $SIZE, 'reader gets whole response');
    eventually { $node->access_log == 2 } 'slow request logged';
    is($up->peak, 1, 'one at a time');
    $node->clear_logs;
}

# the same reader with dsem_release log, and with an unbuffered upstream

for my $path ('/log', '/response/unbuffered') {
    $up->reset;
    my $reader = slow_reader($path);
    wait_for { $up->started == 1 };
    wait_for { $up->served == 1 } if $path eq '/log';
    my $begun = now;
    my $next = $node->begin('/response?t=1');
    wait_for { now > $begun + 0.5 };
    ok(!$next->done, "$path: next request queued");
    is($up->now, $path eq '/log' ? 0 : 1, 'for the reader');
    is(held(), 1, 'slow request holds permit');
    cmp_ok(rest($reader), '>', $SIZE, 'reader gets whole response');
    is($next->wait->status, 200, 'next request served');
    is($up->peak, 1, 'one at a time');
}

# so it is with a limit that is found, which needs to know of the upstream's end

$up->reset;
my $reader = slow_reader('/found');
wait_for { $up->served == 1 };
my $begun = now;
wait_for { now > $begun + 0.5 };
is($t->state->held('found'), 1, 'limit=auto: slow request holds permit');
cmp_ok(rest($reader), '>', $SIZE, 'reader gets whole response');
eventually { !$t->state->exists('found') } 'no permit held';

done_testing();

sub held { $t->state->held('one') }
