#!/usr/bin/perl

# Near the limit a recall takes what a worker does not need, and the worker
# goes on to reuse the rest. Otherwise every request would acquire and release
# in Redis as soon as one request has waited.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 20;
my $HOLD = 50;      # ms, on average

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @node = $t->fleet(4, <<'EOF_CONF');
worker_processes 1;
dsem_reuse 2s;
location / {
    dsem api limit=20 queue=1000 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 4 } 15, 'sessions open';

# a random worker and hold time of each request, the same in each run
srand 1;
my @url = map {
    sprintf '%s?t=%.1f', $node[rand @node]->url('/'), -$HOLD * log(1 - rand)
} 1 .. 5000;

# So many clients have a request each, all the time: their number is the part of
# the permits that is in use, however slow the machine is.
sub used {
    my ($clients, $requests) = @_;
    my $before = $redis->calls->{evalsha} // 0;
    my $result = $t->load(clients => $clients, requests => $requests,
        keepalive => 1, request => sub { $url[ $_[0] % @url ] });
    is_deeply $result->{statuses}, { 200 => $requests },
        "$clients in use: no request refused";
    my $cost = (($redis->calls->{evalsha} // 0) - $before) / $requests;
    note sprintf 'permits in use: %d, commands per request: %.2f', $clients,
        $cost;
    return $cost;
}

my $requests = $ENV{DSEM_LONG} ? 6000 : 600;
cmp_ok used(15, $requests), '<', 0.8, '15 of 20 in use: few commands';
cmp_ok used(18, $requests), '<', 1.3, '18 in use: not two commands each';
cmp_ok scalar(grep { $_->{dsem_status} eq 'QUEUED' }
    map { $_->access_log } @node), '>', 20, 'requests have waited';
cmp_ok $up->peak, '<=', $LIMIT, 'limit never exceeded';
# idle permits stay for two seconds
$_->quit for @node;

$t->done;
