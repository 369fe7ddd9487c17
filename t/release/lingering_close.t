#!/usr/bin/perl

# A permit is released with the last byte from the upstream, whatever the
# client does afterwards. A client that stays connected while nginx lingers, or
# keeps sending an unread body, holds a connection only. With dsem_release log
# the permit is released when the client has closed.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
proxy_http_version 1.1;
proxy_set_header Connection "";
lingering_timeout 30s;
upstream kept {
    server %%UPSTREAM%%;
    keepalive 4;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /response {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /response/kept {
        proxy_pass http://kept;
    }
    location /response/early {
        proxy_request_buffering off;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /response/503 {
        proxy_pass http://127.0.0.1:1;
    }
    location /log {
        dsem_release log;
        proxy_pass http://%%UPSTREAM%%;
        location /log/early {
            proxy_request_buffering off;
            proxy_pass http://127.0.0.1:%%PORT2%%;
        }
    }
}
# responds before it has read anything
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    location / {
        return 200 "early\n";
    }
}
EOF_CONF

# a request with some bytes behind it that nginx does not read
sub with_a_tail {
    my ($path, $method) = @_;
    my $raw = $node->raw;
    $raw->send(($method // 'GET') . " $path HTTP/1.1\r\nHost: a\r\n"
        . "Connection: close\r\nX-Nonce: $path\r\n\r\nand more");
    return $raw;
}

# a body without an end
sub dribbling {
    my ($path) = @_;
    my $raw = $node->raw;
    $raw->send("POST $path HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        . "Transfer-Encoding: chunked\r\n\r\n");
    return $raw;
}

# the response is complete, the client stays: the next request is served

for my $case (
    ['GET', '/response?hang=1'],
    ['HEAD', '/response?hang=1'],
    ['empty answer', '/response?hang=1&status=204'],
    ['error', '/response?hang=1&status=500'],
    ['kept connection', '/response/kept?hang=1'],
) {
    my ($name, $path) = @$case;
    my $client = with_a_tail($path, $name eq 'HEAD' ? 'HEAD' : 'GET');
    wait_for { state() eq '1 0' && $up->now == 1 };
    my $next = $node->begin('/response?t=1');
    wait_for { state() eq '1 1' };
    $up->release_all;
    my $ended = now;
    is($next->wait->status, 200, "$name: next request served");
    cmp_ok(took($ended), '<', 15, 'next request not delayed');
    like($client->read, qr/^HTTP\/1.1 \d00|204/, 'response complete');
    eventually { state() eq '0 0' } 'no permit held';
    is(logged($path), 0, 'request not yet logged');
    $client->close;
    eventually { logged($path) == 1 } 'logged after client close';
    $node->clear_logs;
}

my $client = with_a_tail('/response/503');
like($client->read, qr/502 Bad Gateway/, 'no upstream: response complete');
eventually { state() eq '0 0' } 'permit returned';
$client->close;

$client = with_a_tail('/log?hang=1');
wait_for { state() eq '1 0' && $up->now == 1 };
my $next = $node->begin('/log?t=1');
wait_for { state() eq '1 1' };
$up->release_all;
my $ended = now;
like($client->read, qr/^HTTP\/1.1 200/, 'log: response complete');
wait_for { now > $ended + 0.5 };
ok(!$next->done, 'log: next request queued');
is(state(), '1 1', 'log: permit still held');
$client->close;
is($next->wait->status, 200, 'log: released after client close');

# a body that continues after the response

for my $path ('/response/early', '/log/early') {
    $client = dribbling($path);
    my $got = '';
    wait_for {
        $client->send("1\r\nx\r\n");
        $got .= $client->read(0.02);
        $got =~ /early\n/;
    };
    $next = $node->begin('/response?t=1');
    my $begun = now;
    wait_for {
        $client->send("1\r\nx\r\n") unless $client->readable(0.02);
        $next->done || $path =~ /log/ && now > $begun + 0.5;
    };
    is($next->done, $path =~ /log/ ? 0 : 1,
        "$path: " . ($path =~ /log/ ? 'held meanwhile' : 'free again'));
    ok(!$client->eof, 'client still sends');
    $client->close;
    is($next->wait->status, 200, 'next request served');
    eventually { state() eq '0 0' } 'no permit held';
}

is($up->peak, 1, 'one at a time');

done_testing();

sub logged {
    my ($nonce) = @_;
    return scalar grep { $_->{http_x_nonce} eq $nonce } $node->access_log;
}

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
