#!/usr/bin/perl

# A client that holds a permit leaves, and its request runs a post_action: it
# holds nothing any more, gets no line, and does not end with the worker's holds.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
location = /hold {
    dsem one limit=1;
    dsem_hold;
    post_action /after;
}
location = /after { proxy_pass http://%%UPSTREAM%%/?hang=1; }
location / { dsem two limit=1; proxy_pass http://%%UPSTREAM%%; }
EOF_CONF

my @workers = $node->workers;
my $hold = $node->hold('/hold');
$hold->close;
wait_for { $up->now == 1 } 15, 'the post_action';
wait_for { $t->state->held('one') == 0 } 15, 'nothing is held';

# the next line of a hold would be due
$clock->step(16);
is $node->get('/')->status, 200, 'served after that';
is $up->now, 1, 'the post_action runs on';
is_deeply [ $node->workers ], \@workers, 'no worker died';

$node->reload;
is $up->now, 1, 'the post_action runs on in the old one';
$up->release_all;
eventually { !kill 0, $workers[0] } 'it ends';

$t->done;
