#!/usr/bin/perl

# Responses without a body, a thousand to HEAD and hundreds of 204 and 304, and
# interim responses (100, 103): nginx may never see their last buffer. The
# permit is released all the same.

use lib 't/lib';
use IO::Socket::INET;

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $interim = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10)
    or die "listen: $!";

my $node = $t->node('n1', <<'EOF_CONF', INTERIM => $interim->sockport);
worker_connections 2048;
dsem one limit=1 queue=100 timeout=30s;
keepalive_requests 100000;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /kept {
        proxy_http_version 1.1;
        proxy_set_header Connection '';
        proxy_pass http://kept;
    }
    location /interim {
        dsem interim limit=1;
        proxy_http_version 1.1;
        proxy_pass http://127.0.0.1:%%INTERIM%%;
    }
}
upstream kept {
    server %%UPSTREAM%%;
    keepalive 4;
}
EOF_CONF

# each client on one connection; requests and expected statuses, in turn
my %case = (
    'HEAD /' => 200, 'HEAD /kept' => 200, 'HEAD /?size=100000' => 200,
    'GET /?status=204' => 204, 'GET /kept?status=204' => 204,
    'GET /?status=304' => 304, 'HEAD /kept?status=404' => 404,
);
for my $asked (sort keys %case) {
    $up->reset;
    my @clients = map { $node->raw } 1 .. 10;
    my ($expected, $got) = ($case{$asked}, 0);
    my $times = $asked eq 'HEAD /' ? 100 : 20;
    for (1 .. $times) {
        $_->send("$asked HTTP/1.1\r\nHost: a\r\n\r\n") for @clients;
        $got += $_->read
            =~ /\AHTTP\/1.1 $expected [^\r]*\r\n(?:[^\r]+\r\n)+\r\n\z/
            for @clients;
    }
    is($got, 10 * $times, "$asked: all responses bodiless");
    is($up->peak, 1, 'one at a time');
    eventually { state('one') eq '0 0' } 'nothing left';
}

# 103, 100, and 100 alone

for my $before ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n")
{
    my ($status) = $before =~ /(1\d\d)/;
    for my $after ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend", '') {
        my $request = $node->raw;
        $request->send("GET /interim HTTP/1.1\r\nHost: a\r\n"
            . "Connection: close\r\n\r\n");
        my $conn = $interim->accept;
        wait_for { state('interim') eq '1 0' };
        is($node->get('/interim')->status, 503, "before $status: permit taken");
        syswrite $conn, $before . $after;
        close $conn;
        my $answer = $request->read_eof;
        like($answer, qr/^HTTP\/1.1 [125]\d\d /,
            "after $status: final response received");
        note($answer =~ s/\r\n/ | /gr);
        eventually { state('interim') eq '0 0' } 'nothing left';
    }
}

done_testing();

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts($name);
}
