#!/usr/bin/perl

# Expect: 100-continue: a request that is refused before its body is read gets
# its final answer and nothing before it; one whose body is read first gets 100,
# and may be rejected then. One that waits is served whole, whether the client
# waits for 100 or sends its body at last without; one that leaves before its
# body is there leaves nothing.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
lingering_close off;
location / {
    dsem one limit=1 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /unbuffered {
    dsem one limit=1 queue=10 timeout=30s;
    proxy_http_version 1.1;
    proxy_request_buffering off;
    proxy_pass http://%%UPSTREAM%%;
}
location /impatient {
    dsem impatient limit=0;
    proxy_pass http://%%UPSTREAM%%;
}
location /unread {
    dsem unread limit=0;
    dsem_wait_body off;
    proxy_pass http://%%UPSTREAM%%;
}
location /denied {
    deny all;
    dsem one limit=1 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $OK = qr/HTTP\/1\.1 200 .*\r\n\r\n\S* \S+\n\z/s;

# with a permit free

for my $path (qw(/ /unbuffered)) {
    my $raw = expecting($path);
    is($raw->read_until(qr/\r\n\r\n/), "HTTP/1.1 100 Continue\r\n\r\n",
        "$path: interim response sent");
    $raw->send('body');
    like($raw->read_eof, qr/\A$OK/, 'request served');
    eventually { state() eq '0 0' } 'nothing left';
}

# refused

like(expecting('/denied', 'body')->read_eof, qr/\AHTTP\/1\.1 403 /,
    'denied without 100');
like(expecting('/unread', 'body')->read_eof, qr/\AHTTP\/1\.1 503 /,
    'rejected without 100');
my $rejected = expecting('/impatient');
is($rejected->read_until(qr/\r\n\r\n/), "HTTP/1.1 100 Continue\r\n\r\n",
    'body awaited: interim response sent');
like($rejected->send('body')->read_eof, qr/\AHTTP\/1\.1 503 /,
    'rejected with its body');

# while somebody else has the permit

for my $path (qw(/ /unbuffered)) {
    my $holder = $node->begin('/?hang=1');
    wait_for { $up->now == 1 };
    my $patient = expecting($path);
    my $impatient = expecting($path, 'body');
    my $leaver = expecting($path);
    my $half = expecting($path, 'bo');
    eventually { state() =~ /^1 [1-4]$/ } "$path: requests queued";
    is($up->now, 1, 'no waiting request at backend');
    $_->close for $leaver, $half;
    $up->release_all;
    is($holder->wait->status, 200, 'holder served');
    is($patient->read_until(qr/\r\n\r\n/), "HTTP/1.1 100 Continue\r\n\r\n",
        'interim response sent');
    $patient->send('body');
    like($patient->read_eof, qr/\A$OK/, 'request served');
    like($impatient->read_eof, qr/\A(?:HTTP\/1\.1 100 Continue\r\n\r\n)?$OK/,
        'body without 100 served');
    eventually { state() eq '0 0' && $up->now == 0 } 'nothing left';
}
is($up->peak, 1, 'one at a time');

done_testing();

sub expecting {
    my ($path, $body) = @_;
    return $node->raw->send("POST $path HTTP/1.1\r\nHost: a\r\n"
        . "Connection: close\r\nContent-Length: 4\r\n"
        . "Expect: 100-continue\r\n\r\n" . ($body // ''));
}

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
