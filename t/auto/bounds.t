#!/usr/bin/perl

# The limit stays between its bounds: a backend that bears more gets no more
# than "max", one that is slow whatever is done gets "min".

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /bounded {
    dsem api limit=auto min=4 max=12 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my (%seen, $load);

wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
is $node->get('/bounded?t=200')->status, 200, 'a request';
wait_for { $t->state->rule('api')->{found} } 15, 'its sample';
# a latency without queueing that this machine keeps even when it is busy
$t->state->set_rule('api', floor => 265_000, latency => 265_000);

$load = load('t=200');
%seen = ();
eventually { limit() == 12 } 'raised to max', 30;
wait_for { $up->peak >= 12 } 15, 'max at the backend';
my $served = $up->served;
wait_for { limit(); $up->served > $served + 60 } 30, 'the load to go on';
$load->stop->wait;
is $up->peak, 12, 'max reached, never exceeded';

# twice as slow with each request more; a probe is due
$load = load('t=15&knee=1');
eventually { limit() == 4 } 'lowered to min', 30;
$served = $up->served;
wait_for { limit(); $up->served > $served + 40 } 30, 'the load to go on';
my $result = $load->stop->wait;
is_deeply [ grep { $_ < 4 || $_ > 12 } keys %seen ], [],
    'never outside the bounds';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served';

$t->done;

sub load {
    my ($arguments) = @_;
    return $t->load_start(clients => 40, seconds => 600,
        urls => [ $node->url("/bounded?$arguments") ]);
}

sub limit {
    my $limit = $t->state->lowest_limit('api');
    $seen{$limit}++;
    return $limit;
}
