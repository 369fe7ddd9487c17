#!/usr/bin/perl

# A key is charged for requests that run longer than usual, by their time,
# whatever the number of permits that each of them holds.

use lib 't/lib';
use Dsem::Test;

my $WEIGHT = 10_000;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF', LIMIT => 3 * $WEIGHT, WEIGHT => $WEIGHT);
worker_processes 1;
location / {
    dsem api limit=%%LIMIT%% queue=50 timeout=60s weight=%%WEIGHT%% fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# the worker's account lives as long as this one
my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
is $node->get("/?k=$_&t=2")->status, 200, "$_: a quick one"
    for ('slow', 'other') x 4;
my @slow = map { $node->begin('/?k=slow&hang=1') } 1, 2;
wait_for { $up->now == 3 } 15, 'all permits';
my @waiting;
for my $key (('slow') x 4, ('other') x 4) {
    push @waiting, $node->begin("/?k=$key&t=2");
    wait_for { $t->state->waiting('api') == @waiting } 15, 'in the queue';
}
eventually { queue() eq 'other other other other slow slow slow slow' }
    'slow ones behind the others';

$up->release_all;
is $_->wait(30)->status, 200, 'served' for $holder, @slow, @waiting;

$t->done;

sub queue { return join ' ', map { (split)[4] } $t->state->queue('api') }
