#!/usr/bin/perl

# Without a queue requests beyond the limit are rejected, and none waits: that
# they were rejected says that the limit is used, although each of several
# workers has few of its permits.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @nodes = $t->fleet(3, <<'EOF_CONF');
worker_processes 1;
location /rejecting {
    dsem api limit=auto max=100;
    proxy_pass http://%%UPSTREAM%%;
}
location /heavy {
    dsem heavy limit=auto min=2 weight=$arg_w;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 3 && limit() } 15, 'all sessions';
is $nodes[0]->get('/rejecting?t=200')->status, 200, 'a request';
wait_for { $t->state->rule('api')->{found} } 15, 'its sample';
# a latency without queueing that this machine keeps even when it is busy
$t->state->set_rule('api', floor => 265_000, latency => 265_000);

# bursts, which need the limit for a fifth of the time only
my %answers;
eventually {
    my @burst = map { $nodes[ $_ % 3 ]->begin('/rejecting?t=200') } 1 .. 30;
    $answers{ $_->wait->status }++ for @burst;
    my $ended = now;
    wait_for { now - $ended > 0.7 } 15, 'a pause';
    limit() >= 14;
} 'raised because of rejected requests', 30;
is_deeply [ sort keys %answers ], [200, 503], 'served or rejected';
cmp_ok $up->peak, '<=', 30, 'no more than there were';

# a weight that the lowest limit would not let in is an error at any limit
is $nodes[0]->get('/heavy?w=2')->status, 200, 'weight of min';
is $nodes[0]->get('/heavy?w=3')->status, 503, 'weight above min';
is scalar($nodes[0]->grep_log(qr/value "3" of "weight" of semaphore "heavy" is not a number between 1 and 2/)),
    1, 'logged';

$t->done;

sub limit { return $t->state->lowest_limit('api') }
