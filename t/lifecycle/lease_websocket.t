#!/usr/bin/perl

# An upgraded connection stays open and silent for longer than a lease. The lease
# belongs to the worker, not to the request, so the permit stays counted until
# the connection closes.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 2;

my $t = Dsem::Test->new(lease => $LEASE);
$t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 2s;
location /upgraded {
    dsem api limit=1 queue=10 timeout=20s;
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection upgrade;
    proxy_pass http://%%UPSTREAM%%;
}
location /asked {
    dsem api limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub held { $t->state->held('api') }

my $socket = $node->raw;
$socket->send("GET /upgraded HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
    . "Connection: Upgrade\r\n\r\n");
like $socket->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 101/,
    'connection upgraded';
$socket->send('one');
is $socket->read_until(qr/one/), 'one', 'data echoed';
is $up->now, 1, 'connection at upstream';
my $waits = $other->begin('/asked?t=1');
is $waits->wait->status, 503, 'second connection rejected';

my $opened = now;
my ($asked, $passed) = (0, 0);
wait_for {
    for my $from ($node, $other) {
        $passed++ if $from->get('/asked?t=1')->status != 503;
        $asked++;
    }
    $passed++ if held() != 1;
    wait_for { now >= $opened + $asked * 0.05 } 15, 'a moment';
    $asked > 40 && now > $opened + 1.3 * $LEASE;
} 20, 'more than a lease';
is $passed, 0, 'none passed for more than a lease';
is $up->peak, 1, 'limit reached, never exceeded';
my $behind = $other->begin('/upgraded?t=1');
eventually { $t->state->waiting('api') == 1 } 'one request queued';
$socket->send('two');
is $socket->read_until(qr/two/), 'two', 'data still echoed';
ok !$behind->done, 'queued request not served';

$socket->close;
is $behind->wait->status, 200, 'permit free after close';
is $up->peak, 1, 'limit never exceeded';
eventually { held() == 0 } 'no permit held';
is scalar(map { $_->grep_log(qr/lease of|resynchronizing|overage/) }
        $node, $other), 0, 'no resynchronization';

$t->done;
