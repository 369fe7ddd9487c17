#!/usr/bin/perl

# Few requests at a time: nothing is known of what the backend would do with
# more, so the limit is not raised; nor is it lowered, as nothing is wrong.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /unused {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $load = $t->load_start(clients => 4, seconds => 600,
    urls => [ $node->url('/unused?t=10') ]);

wait_for { $up->served > 20 } 15, 'the load';
my %seen;
wait_for { $seen{ limit() }++; $up->served > 400 } 30, 'many requests';
my $result = $load->stop->wait;
is_deeply [ keys %seen ], [10], 'the limit stays' or diag explain \%seen;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served';

$t->done;

sub limit { return $t->state->lowest_limit('api') }
