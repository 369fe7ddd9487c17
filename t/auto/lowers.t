#!/usr/bin/perl

# A backend gets slower by the number of its requests at once: the limit that
# was found, with another latency, is lowered to what the backend bears, and
# holds there.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /slower {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $most = 0;
wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
is $node->get('/slower?t=50')->status, 200, 'a request';
wait_for { $t->state->rule('api')->{found} } 15, 'its sample';
$t->state->set_rule('api', floor => 50_000, latency => 50_000,
    level => 108_200, error => 50, known => 108_200);
$t->state->set_found('api', 25);

# the same service time, but only for a third of the requests
my $load = $t->load_start(clients => 60, seconds => 600,
    urls => [ $node->url('/slower?t=50&knee=8') ]);
wait_for { $up->peak > 20 } 15, 'the limit found before';
# found, not only tried
eventually {
    my $rule = $t->state->rule('api');
    ($rule->{mode} == 1 ? $rule->{base} : $rule->{found}) <= 13
} 'lowered', 90;
# requests of before the cut run to their end
$most = 0;
wait_for { $up->now <= limit() } 15, 'the limit at the backend';
$node->clear_logs;
$up->reset;
my @looks;
wait_for { push @looks, limit(); $up->served > 250 } 30, 'the load to go on';
my $result = $load->stop->wait;
# a higher one is tried for a moment
@looks = sort { $a <=> $b } @looks;
cmp_ok $looks[@looks / 2], '<=', 18, 'not raised again';
# the limit may have been higher between two looks at it
my ($in_force) = sort { $b <=> $a } $most,
    map { $_->{dsem_limit} } $node->access_log;
cmp_ok $up->peak, '<=', $in_force, 'limit not exceeded';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

$t->done;

sub limit {
    my $limit = $t->state->lowest_limit('api');
    $most = $limit if $limit > $most;
    return $limit;
}
