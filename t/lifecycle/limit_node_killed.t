#!/usr/bin/perl

# The configuration of a killed node leaves with its last session: not when a
# worker of it is killed, but when its lease ends.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 2;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_lease 2s;
location /killed {
    dsem api limit=12 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $stays = $t->node('stays', $conf);
my $killed = $t->node('killed', $conf =~ s/limit=12/limit=5/r);
wait_for { lowest() == 5 } 15, 'both nodes registered';
is peak(), 5, 'lower limit in force';

# a worker: its sibling and its successor have the same configuration
$killed->kill_worker;
eventually { $killed->grep_log(qr/of a dead worker/) } 'a worker killed';
is peak(), 5, 'lower limit stays';

# the node
my $since = now;
$killed->kill;
my $load = $t->load_start(urls => [ $stays->url('/killed') ], clients => 50,
    seconds => 600);
wait_for { $up->peak >= 5 } 15, 'load';
eventually { $up->peak == 12 } 'the other limit in force', $LEASE + 15;
cmp_ok now - $since, '>', $LEASE / 2, 'not before its lease ends';
$load->stop->wait;
is $up->peak, 12, 'limit reached, never exceeded';

$t->done;

sub peak {
    wait_for { !Dsem::Teardown::left_in($redis) } 15, 'no permit held';
    $up->reset;
    $t->load(urls => [ $stays->url('/killed') ], clients => 50,
        requests => 100);
    return $up->peak;
}

# the lowest limit that a live configuration asks for
sub lowest { return $t->state->lowest_limit('api') }
