#!/usr/bin/perl

# Requests of a key took 2 ms, and now hang: its requests that wait go behind
# those of another key, although they were cheap when they came. Inside the key
# they stay first come, first served.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=3 queue=50 timeout=60s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my (%is, @all);

sub begin {
    my ($key, $query) = @_;
    my $request = $node->begin("/?k=$key&$query");
    $is{ $request->nonce } = $key;
    push @all, $request;
}

sub queue {
    return join ' ', map { (split)[4] } $t->state->queue('api');
}

# the worker's account lives as long as this one
my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
is $node->get("/?k=$_&t=2")->status, 200, "$_: a quick one"
    for ('slow', 'other') x 4;
begin('slow', 'hang=1') for 1, 2;
wait_for { $up->now == 3 } 15, 'all permits';
for (('slow') x 4, ('other') x 4) {
    begin($_, 't=2');
    my $n = @all - 2;
    wait_for { $t->state->waiting('api') == $n } 15, 'in the queue';
}
eventually { queue() eq 'other other other other slow slow slow slow' }
    'slow ones behind the others';

# by one permit: of requests that are granted together any may be the first one
# at the backend
$up->release(1);
is $_->wait(30)->status, 200, 'served' for $holder, @all[2 .. $#all];
$up->release_all;
is $_->wait(30)->status, 200, 'served' for @all[0, 1];
my @order = grep { ($is{$_} // '') eq 'slow' } $up->order;
is_deeply \@order, [ map { $_->nonce } grep { $is{ $_->nonce } eq 'slow' }
    @all ], 'in their order';
is $up->peak, 3, 'limit reached, never exceeded';

$t->done;
