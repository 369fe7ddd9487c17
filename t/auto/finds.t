#!/usr/bin/perl

# A backend is slower beyond twenty requests at a time. Two nodes with
# "limit=auto" begin below that, and find it: more requests are let in while
# their latency stays, and no more than that. The limit in force is never
# exceeded at the backend.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
add_header X-Limit $dsem_limit always;
location /knee {
    dsem api limit=auto max=200 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @nodes = $t->fleet(2, $conf);

my $load = $t->load_start(clients => 60, seconds => 600,
    urls => [ map { $_->url('/knee?t=60&knee=20&steep=2') } @nodes ]);

my $highest = 0;
eventually { limit() == 10 } 'begins at the start value';
eventually { limit() >= 16 } 'finds the knee', 60;

# a machine that stalls makes the backend look slow for a while
my $median;
wait_for { $median = median(300); $median >= 13 && $median <= 36 } 60,
    'the limit to stay';
cmp_ok $median, '>=', 13, 'stays near the knee';
cmp_ok $median, '<=', 36, 'goes not far beyond it';
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

# the number in force moves between two looks at it
my $peak = $up->peak;
cmp_ok $peak, '>=', 16, 'limit reached at the backend';
cmp_ok $peak, '<=', most_in_force(), 'limit never exceeded';

$t->done;

# of the limit, while so many requests are served
sub median {
    my ($n) = @_;
    my $served = $up->served;
    my @seen;
    wait_for { push @seen, limit(); $up->served > $served + $n } 30,
        'the load to go on';
    return (sort { $a <=> $b } @seen)[ @seen / 2 ];
}

sub limit {
    my $limit = $t->state->lowest_limit('api') // 0;
    $highest = $limit if $limit > $highest;
    return $limit;
}

# as the nodes have logged it with each request
sub most_in_force {
    my ($most) = sort { $b <=> $a } $highest,
        map { $_->{dsem_limit} } map { $_->access_log } @nodes;
    return $most;
}
