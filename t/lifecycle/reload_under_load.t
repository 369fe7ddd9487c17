#!/usr/bin/perl

# Reloads under load, each with requests running and waiting. Old and new
# workers keep the limit together, every request is served, the old workers
# exit, and no permit is held afterwards.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.020);

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
location /reloaded {
    dsem api limit=5 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $reloads = $ENV{DSEM_LONG} ? 100 : 4;
my @urls = map { $_->url('/reloaded') } $node, $other;
my $load = $t->load_start(urls => \@urls, clients => 40, seconds => 600);
wait_for { $up->peak == 5 } 15, 'load';

my ($waited, $drained, $long_served) = (0, 0, 0);
for (1 .. $reloads) {
    my $served = $up->served;
    wait_for { $up->served > $served + 30 } 10, 'the load to go on';
    $waited++ if wait_for {
        my $of = $t->state->figures('api');
        $of->{waiting} && $of->{held};
    } 15, 'requests in flight and waiting';
    my $long = $node->begin('/reloaded?hang=1');
    wait_for { grep { $_ eq $long->nonce } $up->order } 15, 'a long request';
    $node->reload;
    $drained++ if $node->draining;
    $up->release_nonce($long->nonce);
    $long_served++ if $long->wait->status == 200;
}
is $waited, $reloads, 'requests running and waiting';
is $drained, $reloads, 'old workers still running';
is $long_served, $reloads, 'long requests served';
eventually { !$node->draining } 'old workers gone';

my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'each response complete';
is $up->peak, 5, 'limit reached, never exceeded';
is $up->served, $result->{count} + $reloads, 'each request served once';
eventually { $t->state->exists('api') == 0 } 'nothing held, none waiting';
eventually { $t->state->session_count == 4 } 'only live sessions';
is scalar(map { $_->grep_log(qr/\[warn\]/) } $node, $other), 0,
    'no warning logged';

$t->done;
