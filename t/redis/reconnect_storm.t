#!/usr/bin/perl

# Sixteen workers lose Redis at the same moment, repeatedly. Their attempts to
# reconnect are few and spread. Once Redis is available, all workers reconnect
# within a moment and declare their permits.

use lib 't/lib';
use Dsem::Test;

my ($WORKERS, $LIMIT) = (16, 8);
my $TIMES = $ENV{DSEM_LONG} ? 100 : 3;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.1);
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 16;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    location /storm {
        dsem api limit=8 queue=500 timeout=20s;
        dsem_on_error reject;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# session => the epoch under which it has declared all that it has
sub declared {
    my $of = $t->state->entries;
    return map { $_ => $of->{$_}{declared} } keys %$of;
}

# every worker has, since then
sub all_back {
    my (%before) = @_;
    my %declared = declared();
    return keys %declared == $WORKERS
        && !grep { $declared{$_} <= ($before{$_} // 0) } keys %declared;
}

eventually { all_back() } 'sixteen sessions';
my $load = $t->load_start(urls => [ $node->url('/storm') ], clients => 40,
    seconds => 3600, timeout => 30);
wait_for { $up->peak == $LIMIT } 15, 'load';

# a short outage: no request is refused

my $longest = 0;
for my $n (1 .. $TIMES) {
    my %before = declared();
    my $lost = now;
    $proxy->reset;
    wait_for { all_back(%before) } 10, 'all sessions back';
    my $took = took($lost);
    $longest = $took if $took > $longest;
    $up->reset;
    wait_for { $up->served > 20 && $up->peak == $LIMIT } 10, 'service';
}
cmp_ok $longest, '<', 2, 'reset: all reconnected soon';
note sprintf 'reset %d times: back in %.3f s at most', $TIMES, $longest;
is scalar($node->grep_log(qr/unavailable \(/)), 0, 'reset: redis stays available';
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'reset: every request served';

# a longer outage: all attempts are refused

$node->clear_logs;
my $accepted = $proxy->accepted;
$proxy->refuse;
$proxy->reset;
my $gone = now;
wait_for { $node->grep_log(qr/unavailable \(/) == $WORKERS } 15,
    'all workers unavailable';
is $node->get('/storm')->status, 503, 'unavailable: handled by dsem_on_error';
wait_for { now > $gone + 1.5 } 15, 'pauses to grow';

# arrivals at the reopened port: attempts of commands and of
# subscriptions, with pauses of up to 750 ms
$proxy->refuse(0);
my $opened = now;
wait_for { $proxy->accepted - $accepted >= 2 * $WORKERS } 15, 'all of them';
my $took = took($opened);
cmp_ok $took, '<', 2, 'back: no late worker';
eventually { $node->grep_log(qr/available again/) == $WORKERS }
    'all available again';
# as the workers saw it: ms since the loss, in parts of 20 ms
my @after = sort { $a <=> $b } map { /available again after (\d+) ms/ }
    $node->grep_log(qr/available again/);
cmp_ok $after[-1] - $after[0], '>', 100, 'back: reconnects spread';
my %steps = map { int($_ / 20) => 1 } @after;
cmp_ok scalar(keys %steps), '>', 3, 'back: attempts one by one';
cmp_ok $proxy->accepted - $accepted, '<', 4 * $WORKERS,
    'back: two connections each';
note sprintf 'all connected in %.3f s, in %d steps', $took, scalar keys %steps;

$up->reset;
$load = $t->load_start(urls => [ $node->url('/storm') ], clients => 40,
    seconds => 3600, timeout => 30);
wait_for { $up->served > 80 && $up->peak >= $LIMIT } 15, 'full load';
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'requests served again';
is $up->peak, $LIMIT, 'limit reached, never exceeded';

$t->done;
