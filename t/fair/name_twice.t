#!/usr/bin/perl

# A name that occurs twice has the key of its first directive; of several
# semaphores $dsem_key is that of the one that $dsem_name names, and empty where
# that has no "fair".

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
location /holder {
    dsem api limit=1 queue=9 timeout=20s fair=holder;
    proxy_pass http://%%UPSTREAM%%;
}
location /twice {
    dsem $arg_n limit=1 queue=9 timeout=20s fair=$arg_k;
    dsem api limit=1 queue=9 timeout=20s fair=$arg_other;
    proxy_pass http://%%UPSTREAM%%;
}
location /keyed {
    dsem one limit=1 queue=9 timeout=20s fair=first;
    dsem two limit=1 queue=9 timeout=20s fair=second;
    proxy_pass http://%%UPSTREAM%%;
}
location /without {
    dsem one limit=1 queue=9 timeout=20s fair=first;
    dsem three limit=1 queue=9 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub decided {
    my ($request) = @_;
    return join ' ', @{ $node->logged($request) }{qw(dsem_name dsem_key)};
}

# places in the queue: behind the backlog of its first key, or before it

my $holder = $node->begin('/holder?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my (@all, %is);
for my $case (['a', 'x'], ['a', 'y'], ['a', 'z'], ['b', 'a']) {
    my ($k, $other) = @$case;
    my $request = $node->begin("/twice?n=api&k=$k&other=$other&t=2");
    push @all, $request;
    $is{ $request->nonce } = $k;
    wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
}
$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @all;
is decided($_), "api $is{ $_->nonce }", 'first key in the log' for @all;
my @order = map { $is{$_} // () } $up->order;
cmp_ok +(grep { $order[$_] eq 'b' } 0 .. 3)[0], '<', 2, 'first key counts'
    or note "@order";

# the last one decides, or the one that queued the request

is decided($node->get('/keyed')), 'two second', 'key of the last semaphore';
is decided($node->get('/without')), 'three ', 'no key of an earlier one';
my $first = $node->begin('/without?hang=1');
wait_for { $up->now == 1 } 15, 'the first semaphore';
my $queued = $node->begin('/keyed');
wait_for { $t->state->waiting('one') == 1 } 15, 'a wait';
$up->release_all;
is $_->wait->status, 200, 'request served' for $first, $queued;
is decided($queued), 'one first', 'key of the one with a wait';

$t->done;
