#!/usr/bin/perl

# Requests that take several permits each: the limit is used where most permits
# are, whatever the number of requests, so it is learned.

use lib 't/lib';
use Dsem::Test;

my ($WEIGHT, $LIMIT, $CLIENTS) = (5, 100, 18);

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /heavy {
    dsem api limit=auto min=5 max=200 weight=5 queue=100 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 1 && limit() } 15, 'the session';
$t->state->set_found('api', $LIMIT);
my $load = $t->load_start(clients => $CLIENTS, seconds => 600,
    urls => [ $node->url('/heavy?t=300') ]);
wait_for { $t->state->held('api') == $CLIENTS * $WEIGHT } 15, 'the load';
eventually { limit() < $LIMIT }
    'nine of ten permits in use: a lower limit is tried';
$load->stop->wait;

$t->done;

sub limit { return $t->state->lowest_limit('api') }
