#!/usr/bin/perl

# A backend gets slower by the number of its requests at once: the limit that
# was found is lowered to what the backend bears, and holds there.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /slower {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $most = 0;
my $load = load(25);
eventually { limit() >= 20 } 'found', 30;
$load->stop->wait;

# the same service time, but only for a third of the requests
$load = load(8);
eventually { limit() <= 13 } 'lowered', 20;
# requests of before the cut run to their end
$most = 0;
wait_for { $up->now <= limit() } 15, 'the limit at the backend';
$node->clear_logs;
$up->reset;
my $end = now + 2;
while (now < $end) {
    limit();
    select undef, undef, undef, 0.02;
}
my $result = $load->stop->wait;
cmp_ok $most, '<=', 18, 'not raised again';
# the limit may have been higher between two looks at it
my ($in_force) = sort { $b <=> $a } $most,
    map { $_->{dsem_limit} } $node->access_log;
cmp_ok $up->peak, '<=', $in_force, 'limit not exceeded';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

$t->done;

sub load {
    my ($knee) = @_;
    return $t->load_start(clients => 60, seconds => 60,
        urls => [ $node->url("/slower?t=50&knee=$knee") ]);
}

sub limit {
    my $limit = $t->state->lowest_limit('api');
    $most = $limit if $limit > $most;
    return $limit;
}
