#!/usr/bin/perl

# Nodes ask for different limits, and the operator's order overrides them all, in
# both directions, until it is deleted. Each node names an order that is in
# force at its start, once.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
location /ordered {
    dsem api limit=12 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

$t->state->order('api', '8 0');
my @nodes = ($t->node('n1', $conf),
    $t->node('n2', $conf =~ s/limit=12/limit=5/r));
wait_for { lowest() == 5 } 15, 'both nodes registered';
is peak(), 8, 'order between both limits';
for ([ $nodes[0], 12 ], [ $nodes[1], 5 ]) {
    my ($node, $limit) = @$_;
    eventually { $node->grep_log(qr/\[warn\].*dsem: limit of "api" is 8 by an operator's order, this node asks for $limit/) }
        "order named: $limit";
    is scalar($node->grep_log(qr/limit of/)), 1, "one line: $limit";
}
$t->state->order('api', '3 0');
is peak(), 3, 'order below both';
$t->state->order('api', '15 0');
is peak(), 15, 'order above both';
$nodes[0]->reload($conf =~ s/limit=12/limit=4/r);
wait_for { lowest() == 4 } 15, 'the new limit';
is peak(), 15, 'order stays after a reload';
$t->state->drop_order('api');
is peak(), 4, 'lowest limit without an order';

$t->done;

sub peak {
    wait_for { !Dsem::Teardown::left_in($redis) } 15, 'no permit held';
    $up->reset;
    my @requests = map {
        map { $_->begin('/ordered?hang=1') } @nodes
    } 1 .. 20;
    wait_for {
        my $held = $t->state->held('api');
        $up->now == $held && $held + $t->state->waiting('api') == @requests;
    } 15, 'all running or waiting';
    wait_for { $up->release_all; !grep { !$_->done } @requests } 15,
        'the end of all requests';
    return $up->peak;
}

# the lowest limit that a live configuration asks for
sub lowest { return $t->state->lowest_limit('api') }
