#!/usr/bin/perl

# A flood of keys made up by clients, each used once: the semaphore is at its
# cap and its queue is full most of the time, and a request runs all the time.
# What the worker and Redis keep is bounded by what waits.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $KEYS = $ENV{DSEM_LONG} ? 1_000_000 : 8_000;
my $ROUNDS = 4;
my $FLAT = 256;     # KB, in all rounds after the first
my $QUEUE = 40;

my $t = Dsem::Test->new;
my $redis = $t->redis;
# Redis keeps the last 128 slow commands with their arguments
$redis->cmd(qw(CONFIG SET slowlog-log-slower-than -1));
my $up = $t->upstream(service => 0.001);

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
access_log off;
keepalive_requests 1000000;
dsem_log_level info;
upstream backend {
    server %%UPSTREAM%%;
    keepalive 8;
}
server {
    listen 127.0.0.1:%%PORT%% http2;
    error_log error.log warn;
    location / {
        dsem api limit=5 queue=40 timeout=20s fair=$http_x_tenant;
        proxy_pass http://backend;
        proxy_read_timeout 1h;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
    }
}
EOF_CONF

my ($queue, $tags) = map { "dsem:{0}:$_:api" } qw(q f);
my $most = 0;

# the worker's account lives as long as this one
my $holder = Dsem::Http2->new($node->raw);
my ($held, $request) = $holder->request('/?hang=1');
$holder->send($request);
wait_for { $up->now == 1 } 15, 'the holder';

# a hundred streams at a time; some of the keys are too long to be kept
sub flood {
    my ($h2, $n, $statuses) = @_;
    for my $breath (1 .. $n / 100) {
        my @requests = map { [$h2->request('/',
            'x-tenant' => join '-', $_, int rand 1e9, 'x' x ($_ * 3))]
        } 1 .. 100;
        $h2->send(join '', map { $_->[1] } @requests);
        my $kept = $redis->cmd('ZCARD', $tags);
        $most = $kept if $kept > $most;
        $statuses->{ $h2->status($_->[0]) }++ for @requests;
        delete @$h2{qw(status ended body)};
    }
}

my (%statuses, @kb, @redis_kb);
for my $round (0 .. $ROUNDS) {
    for (1 .. 4) {
        my $h2 = Dsem::Http2->new($node->raw);
        flood($h2, $KEYS / $ROUNDS / 4, \%statuses);
        $h2->close;
    }
    wait_for { keys_left('qf') == 0 } 15, 'an empty queue';
    push @kb, $node->resident / 1024;
    push @redis_kb, redis_kb();
}

is_deeply [sort keys %statuses], [200, 503], 'all passed or rejected';
cmp_ok $statuses{$_}, '>', 0.05 * $KEYS, "many $_" for 200, 503;
$up->release_all;
is $holder->status($held), 200, 'holder served';
is $up->peak, 5, 'limit reached, never exceeded';
eventually { keys_left('sqf') == 0 } 'no key left in redis';
cmp_ok $most, '<=', 4 * $QUEUE + 64, 'tags bounded by what waits';
cmp_ok $redis_kb[-1] - $redis_kb[0], '<', $FLAT, 'memory of redis flat';
# sanitizers need more
cmp_ok $kb[-1] - $kb[0], '<', $FLAT * ($ENV{DSEM_TIME_FACTOR} || 1),
    'memory of the worker flat';
note "after each round: worker @kb KB; redis @redis_kb KB; $most tags";

$holder->close;
$t->done;

sub redis_kb {
    my ($bytes) = $redis->cmd('INFO', 'memory') =~ /^used_memory:(\d+)/m;
    return int $bytes / 1024;
}

sub keys_left {
    my ($kinds) = @_;
    return scalar grep { /:[$kinds]:/ } @{ $redis->cmd('KEYS', '*') };
}
