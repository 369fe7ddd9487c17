#!/usr/bin/perl

# A client opens 128 streams with a closed window. All its responses are
# fetched, a few at a time, and hold no permit once fetched: other requests are
# not delayed.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $STREAMS = 128;
my $SIZE = 200_000;     # more than nginx buffers of it

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 1024;
dsem four limit=4 queue=200 timeout=30s;
server {
    listen 127.0.0.1:%%PORT%% http2;
    listen 127.0.0.1:%%PORT2%%;
    location /response {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /log {
        dsem_release log;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub closed_window {
    my ($path) = @_;
    $up->reset;
    my $h2 = Dsem::Http2->new($node->raw, window => 0);
    my @streams = map { $h2->get("$path?t=5&size=$SIZE") } 1 .. $STREAMS;
    return ($h2, @streams);
}

# all are fetched

my ($h2, @streams) = closed_window('/response');
eventually { $up->served == $STREAMS } 'all responses fetched', 20;
is($up->peak, 4, 'four at a time');
eventually { state() eq '0 0' } 'no permit held';
is(scalar(grep { $h2->ended($_) } @streams), 0, 'no response complete');
is($h2->body($_), '', 'no response started') for $streams[-1];

my $other = $node->client->start(
    'http://127.0.0.1:' . $node->port(2) . '/response?t=1');
is($other->wait->status, 200, 'other client served');
cmp_ok($other->took, '<', 15, 'other client not queued');

# fetched responses are sent when the window opens

$h2->window($_, $SIZE) for 0, @streams[0, -1];
$h2->window(0, $SIZE);
for my $stream (@streams[0, -1]) {
    is($h2->status($stream), 200, 'response delivered');
    is(length $h2->body($stream), $SIZE, 'response complete');
}
$h2->close;
eventually { $node->access_log == $STREAMS + 1 } 'all requests logged';

# released in the log phase: only the first four are served

($h2, @streams) = closed_window('/log');
eventually { $up->served == 4 } 'log: four responses fetched';
my $begun = now;
wait_for { now > $begun + 0.5 };
is($up->served, 4, 'log: no fifth fetched');
eventually { state() eq '4 ' . ($STREAMS - 4) } 'log: other requests queued';
$h2->rst($streams[0]);
eventually { $up->served == 5 } 'log: one released, one granted';
$h2->reset;
eventually { state() eq '0 0' } 'log: all released on close';
cmp_ok($up->peak, '<=', 4, 'four never exceeded');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('four') }
