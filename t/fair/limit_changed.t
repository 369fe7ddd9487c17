#!/usr/bin/perl

# Clients of a key leave while they wait, after the limit has changed: the key
# pays nothing for their requests, whose places were computed by the old limit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=1 queue=50 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my @leave = map { $node->begin("/?k=leave&t=2&n=$_") } 1 .. 8;
my @stay = map { $node->begin("/?k=stay&t=2&n=$_") } 1 .. 8;
wait_for { $t->state->waiting('api') == 16 } 15, 'two keys waiting';

# a higher limit, and no permit for anyone

$t->state->order('api', '20 1');
$_->abort for @leave;
wait_for { $t->state->waiting('api') == 8 } 15, 'one key waiting';
my $again = $node->begin('/?k=leave&t=2&n=9');
wait_for { $t->state->waiting('api') == 9 } 15, 'another request';
my $places = $t->state->places('api');
my ($place) = map { $places->{$_} } grep { / leave$/ } keys %$places;
cmp_ok scalar(grep { $_ < $place } values %$places), '<=', 1,
    'key has not paid for them' or note explain $places;

$t->state->drop_order('api');
$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @stay, $again;
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
