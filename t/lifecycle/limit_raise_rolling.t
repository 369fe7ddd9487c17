#!/usr/bin/perl

# A higher limit is rolled out under load, node by node. It is in force with the
# last reload, although old workers are still there with a long request.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
worker_processes 1;
location /raised {
    dsem api limit=5 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /long {
    dsem other limit=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @nodes = $t->fleet(3, $conf);
my @long = map { $_->begin('/long?hang=1', 'X-Sem' => 'other') } @nodes;
wait_for { $up->now('other') == @nodes } 15, 'long requests';
my $load = $t->load_start(request => sub {
    my ($i) = @_;
    return ($nodes[ $i % @nodes ]->url('/raised'), 'X-Sem' => 'api');
}, clients => 60, seconds => 600);
wait_for { $up->peak('api') == 5 } 15, 'load at the old limit';

for my $node (@nodes) {
    my $last = $node == $nodes[-1];
    $node->reload($conf =~ s/limit=5/limit=12/r);
    wait_for { $up->peak('api') == 12 } 15, 'the new limit' if $last;
    my $limit = $last ? 12 : 5;
    $up->reset;
    wait_for { $up->served > 100 && $up->peak('api') >= $limit } 30,
        'the load to go on, at the limit';
    is $up->peak('api'), $limit, $node->name . ' reloaded: '
        . ($last ? 'new limit for all' : 'old limit for all');
}
is scalar(map { $_->draining } @nodes), 3, 'old workers still there';

my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};
$up->release_all;
is $_->wait->status, 200, 'long request served' for @long;

$t->done;
