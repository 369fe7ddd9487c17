#!/usr/bin/perl

# A node has "limit=auto", another one a number: that number holds while it is
# lower than the one found, whatever the backend would bear, and not any more
# when the other node has gone.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
location /auto {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('a', $conf);
my $other = $t->node('b', $conf =~ s/limit=auto max=100/limit=7/r);
wait_for { $t->state->session_count == 2 && lowest() == 7 } 15, 'both nodes';

my $load = load();
wait_for { $up->served > 60 && $up->peak >= 7 } 30, 'the load';
is $up->peak, 7, 'the number of the other node, never exceeded';
cmp_ok lowest(), '<=', 7, 'nothing above it is found';

# a latency without queueing that this machine keeps even when it is busy
$t->state->set_rule('api', floor => 265_000, latency => 265_000);
$other->quit;
eventually { lowest() > 9 } 'the other has gone: raised', 30;
eventually { $up->peak > 9 } 'more requests at the backend';
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served';

# it comes back with the lower number
$other = $t->node('c', $conf =~ s/limit=auto max=100/limit=7/r);
wait_for { lowest() == 7 } 15, 'the lower number again';
wait_for { $t->state->held('api') == 0 } 15, 'nothing in use';
$up->reset;
$load = load();
wait_for { $up->served > 30 && $up->peak >= 7 } 30, 'the load';
$load->stop->wait;
is $up->peak, 7, 'lower again';

$t->done;

sub load {
    return $t->load_start(clients => 20, seconds => 600,
        urls => [ $node->url('/auto?t=200') ]);
}

sub lowest { return $t->state->lowest_limit('api') }
