#!/usr/bin/perl

# A change is accepted under a name of this server, localhost or an address
# only: any other name may be that of a page whose owner has made it lead here,
# for which the browser sees one site.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%%;
    server_name First.example *.sub.example .both.example tail.*
        ~^r[0-9]+\.example$ "";
    location /dsem/ {
        dsem_api write=on;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

wait_for { $node->get('/dsem/health')->status == 200 } 15, 'connected';

sub change {
    my ($host) = @_;
    return $node->get('/dsem/semaphores/a', -method => 'PATCH',
        -body => '{"limit":1}', 'Content-Type' => 'application/json',
        Host => $host, Origin => "http://$host",
        'Sec-Fetch-Site' => 'same-origin');
}

is change($_)->status, 200, "changed: $_" for qw(first.example
    FIRST.example:8080 localhost localhost:80 127.0.0.1 10.0.0.1:8080
    [::1]:80 [2001:db8::1] a.sub.example a.b.sub.example both.example
    a.both.example tail.example r7.example first.example.);
for my $host (qw(evil.example example xfirst.example first.example.evil
    first.exampl localhost.evil 127.0.0.1.evil xsub.example xboth.example
    tails.example rx.example 127.1 0x7f000001))
{
    my $refused = change($host);
    is $refused->status, 403, "refused: $host";
    like $refused->body, qr/"Host is no server_name of this server/,
        "with the reason: $host";
}
is $node->get('/dsem/semaphores/a', Host => 'evil.example')->status, 200,
    'figures read';

# a server without a name

for ([ 'evil.example', 403 ], [ 'localhost', 200 ], [ '127.0.0.1', 200 ]) {
    my ($host, $status) = @$_;
    my $raw = $node->raw(2);
    $raw->send("PATCH /dsem/semaphores/a HTTP/1.1\r\nHost: $host\r\n"
        . "Content-Type: application/json\r\nContent-Length: 11\r\n"
        . "Connection: close\r\n\r\n{\"limit\":1}");
    like $raw->read_eof, qr/^HTTP\S+ $status /, "no name: $host";
}

$t->done;
