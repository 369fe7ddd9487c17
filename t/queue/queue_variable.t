#!/usr/bin/perl

# "queue" from a variable: each request brings the bound for its own place. An
# empty value is the default, no queue.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
add_header X-Dsem $dsem_status always;
location / {
    dsem api limit=1 queue=$arg_q timeout=1m;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

is refused($_), '503 REJECTED', "queue '$_': no place" for '', 0;
my @waiting = $node->begin('/?q=1&hang=1');
wait_for { $t->state->waiting('api') == 1 } 15, 'one waits';
is refused($_), '503 REJECTED', "queue '$_' of one: no place" for '', 0, 1;
push @waiting, $node->begin('/?q=2&hang=1');
wait_for { $t->state->waiting('api') == 2 } 15, 'two wait';
is refused(2), '503 REJECTED', 'queue of two: no place';
push @waiting, $node->begin('/?q=1000000000&hang=1');
wait_for { $t->state->waiting('api') == 3 } 15, 'three wait';

for (@waiting) {
    my $started = $up->started;
    $up->release(1);
    wait_for { $up->started > $started } 15, 'the next request';
}
$up->release_all;
is $_->wait->status, 200, 'served' for $holder, @waiting;
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;

sub refused {
    my ($queue) = @_;
    my $request = $node->get("/?q=$queue");
    return join ' ', $request->status, $request->header('X-Dsem');
}
