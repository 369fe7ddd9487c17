#!/usr/bin/perl

# "limit=auto" and "fair=" together: the limit is found while keys take turns,
# and what a raise lets in is shared by the same rule.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /shared {
    dsem api limit=auto max=100 queue=200 timeout=30s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a latency without queueing that this machine keeps even when it is busy
wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
is $node->get('/shared?t=200&k=first')->status, 200, 'a request';
wait_for { $t->state->rule('api')->{found} } 15, 'its sample';
$t->state->set_rule('api', floor => 265_000, latency => 265_000);

my ($noisy, $quiet);
# a worker that stands makes all wait, whatever their key
for (1 .. 3) {
    my @loads = map {
        my ($key, $clients) = @$_;
        $t->load_start(clients => $clients, seconds => 600,
            urls => [ $node->url("/shared?t=200&knee=20&k=$key") ]);
    } ['noisy', 50], ['quiet', 5];
    eventually { limit() >= 12 } 'the limit is found', 30;
    my $served = $up->served;
    wait_for { $up->served > $served + 100 } 30, 'the load to go on';
    ($noisy, $quiet) = map { $_->stop->wait } @loads;
    is_deeply [ keys %{ $_->{statuses} } ], [200], 'all requests served'
        for $noisy, $quiet;
    last if $quiet->{p50} < 0.7 * $noisy->{p50};
}
cmp_ok $quiet->{p50}, '<', 0.7 * $noisy->{p50}, 'the quiet key waits less';
is scalar($node->grep_log(qr/\[(?:error|warn)\].*dsem/)), 0, 'no error logged';

$t->done;

sub limit { return $t->state->lowest_limit('api') }
