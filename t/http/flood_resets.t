#!/usr/bin/perl

# A flood of HTTP/2 streams that are opened and reset against a full
# semaphore: Redis hears little of it, others are served as always, no more
# wait than may, and nothing is left.

use List::Util qw(max);
use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $STREAMS = $ENV{DSEM_LONG} ? 10_000 : 2_000;
my $OPEN = 100;     # at once, of each connection
my $MAX_WAITING = 150;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF', MAX_WAITING => $MAX_WAITING);
worker_connections 4096;
keepalive_requests 100000;
dsem_max_waiting %%MAX_WAITING%%;
dsem_log_level info;
server {
    listen 127.0.0.1:%%PORT%% http2;
    error_log error.log warn;
    location /full {
        dsem full limit=1 queue=10000 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location /full {
        dsem full limit=1 queue=10000 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /other {
        dsem other limit=1 queue=10 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $port = 'http://127.0.0.1:' . $node->port(2);

my $holder = $node->client->start("$port/full?hang=1");
wait_for { $up->now == 1 };
my $behind = $node->client->start("$port/full?hang=1",
    'X-Nonce' => 'behind');
eventually { waiting() == 1 } 'limit reached, one queued';

# three ways to reset a hundred streams: each in the breath that opens it,
# all in the one after it, and from the queue

my %way = (
    'same breath' => sub {
        my ($h2, @streams) = @_;
        $h2->send(join '',
            map { $_->[1] . $h2->rst_frame($_->[0]) } @streams);
    },
    'next breath' => sub {
        my ($h2, @streams) = @_;
        $h2->send(join '', map { $_->[1] } @streams);
        $h2->send(join '', map { $h2->rst_frame($_->[0]) } @streams);
    },
    'from the queue' => sub {
        my ($h2, @streams) = @_;
        $h2->send(join '', map { $_->[1] } @streams);
        wait_for { waiting() == 1 + @streams };
        $h2->send(join '', map { $h2->rst_frame($_->[0]) } @streams);
        wait_for { waiting() == 1 };
    },
);

for my $name ('same breath', 'next breath', 'from the queue') {
    $node->clear_logs;
    $up->reset;
    my $polite = $t->load_start(urls => ["$port/other?t=1"], clients => 2,
        seconds => 600, timeout => 60, records => 1);
    wait_for { $up->started };

    my $before = $redis->calls->{evalsha};
    my $begun = now;
    for (1 .. $STREAMS / $OPEN / 5) {
        my $h2 = Dsem::Http2->new($node->raw);
        for (1 .. 5) {
            $way{$name}->($h2, map { [$h2->request('/full')] } 1 .. $OPEN);
            # nginx itself bears so many streams of one breath, but not two
            $h2->ping;
        }
        $h2->close;
    }
    eventually { resets() == $STREAMS } "$name: all resets seen";
    eventually { waiting() == 1 } "$name: one ticket waiting";
    my $took = now - $begun;
    my $calls = $redis->calls->{evalsha} - $before;
    my $result = $polite->stop->wait;

    # of the others each asks and gives back
    cmp_ok $calls - 2 * $result->{count}, '<', $STREAMS / 4,
        "$name: few commands for redis";
    is_deeply [keys %{ $result->{statuses} }], [200], "$name: others served";
    my $longest = max(map { took($_->{start}, $_->{start} + $_->{latency}) }
        @{ $result->{records} });
    cmp_ok $longest, '<', 5, "$name: others served within 5 s";
    note sprintf '%s: %d streams in %.2f s, %d calls; others: %d, '
        . 'p50 %.4f s, p99 %.4f s', $name, $STREAMS, $took, $calls,
        $result->{count}, @$result{qw(p50 p99)};
}

# so many connections that more want to wait than may

my @flood = map { Dsem::Http2->new($node->raw) } 1 .. 5;
for my $h2 (@flood) {
    $h2->send(join '', map { ($h2->request('/full'))[1] } 1 .. $OPEN);
}
eventually { waiting() == $MAX_WAITING } 'max_waiting requests queued';
eventually {
    my $refused = 0;
    for my $h2 (@flood) {
        $h2->read;
        $refused += grep { $_ eq 503 } values %{ $h2->{status} };
    }
    $refused == @flood * $OPEN - $MAX_WAITING + 1;
} 'the others are refused';
$_->reset for @flood;
eventually { waiting() == 1 } 'all tickets removed';

# the queue is what it was

$up->release_all;
is $holder->wait->status, 200, 'holder served';
eventually { ($up->order)[-1] eq 'behind' } 'queued request next';
$up->release_all;
is $behind->wait->status, 200, 'queued request served';
cmp_ok $up->peak, '<=', 2, 'one per semaphore';
eventually { !grep { /:[sq]:/ } @{ $redis->cmd('KEYS', '*') } }
    'nothing left';

done_testing();

sub waiting { $t->state->waiting('full') }

sub resets { scalar grep { $_->{status} == 499 } $node->access_log }
