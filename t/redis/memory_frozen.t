#!/usr/bin/perl

# Redis hangs under load for a long time. Unsent commands and waiting requests
# are bounded, and memory stays bounded: it spreads for a few rounds and then
# no more. DSEM_LONG=1: 300,000 requests in each.

use lib 't/lib';
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 300_000 : 2000;
# more than may wait
my $CLIENTS = 600;
my $MB = 2**20;
# as many requests as may wait, with all that nginx needs for each; sanitizers
# need more
my $BOUND = 8 * $MB * ($ENV{DSEM_TIME_FACTOR} || 1);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
worker_connections 4096;
dsem_redis_timeout 500ms;
dsem_max_waiting 500;
dsem_lease 1s;
location /local {
    dsem local limit=2 queue=1000 timeout=1s;
    proxy_pass http://%%UPSTREAM%%;
}
location /reject {
    dsem "$arg_name" limit=2 queue=1000 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem "$arg_name" limit=2 queue=1000 timeout=10s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub loaded {
    my ($clients, $requests) = @_;
    my $url = $node->url('/');
    return $t->load_start(clients => $clients, timeout => 60,
        requests => $requests, keepalive => 1, request => sub {
            my $i = shift;
            my $path = (qw(local reject pass))[ $i % 3 ];
            return "$url$path?t=5&name=n" . $i % 1000;
        });
}

# a third of it is of one name: not more than its limit lets pass
my $load = loaded(100, 500);
$load->wait;
my $base = $node->resident;

my ($rounds, $spread, $at) = (0, $BOUND, $base);
while ($spread >= $BOUND / 8 && $rounds < 5) {
    my $n = ++$rounds;
    $redis->freeze;
    my $frozen = now;
    $load = loaded($CLIENTS, $REQUESTS);
    my $largest = 0;
    wait_for {
        my $rss = $node->resident;
        $largest = $rss if $rss > $largest;
        !$load->running;
    } $REQUESTS / 500 + 60, 'the load to end';
    my $result = $load->wait;
    is_deeply [ grep { !/^(?:200|503)$/ } keys %{ $result->{statuses} } ],
        [], "$n: every request answered" or diag explain $result->{statuses};
    is $result->{count}, $REQUESTS, "$n: load applied";
    cmp_ok $largest - $base, '<', $BOUND, "$n: memory bounded while frozen";
    $redis->thaw;
    eventually { $node->get('/reject?t=1&name=x')->status == 200 }
        "$n: served after the thaw";
    $spread = -$at + ($at = $node->resident);
    note sprintf '%d: %.1f s, %d requests, %.1f MB + %.1f, %.1f afterwards',
        $n, now - $frozen, $result->{count}, $base / $MB,
        ($largest - $base) / $MB, ($at - $base) / $MB;
}
cmp_ok $spread, '<', $BOUND / 8, "memory stable after $rounds rounds";

$t->done;
