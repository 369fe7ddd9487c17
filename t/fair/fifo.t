#!/usr/bin/perl

# Inside one key requests are served in order of arrival, over the whole
# fleet. Two keys take turns, although the requests of one came before all of
# the other.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my @fleet = $clock->fleet(4, <<'EOF_CONF');
worker_processes 1;
dsem_lease 10m;
location / {
    dsem api limit=1 queue=50 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a worker serves its own next request while a reply is late: none ever is
wait_for { $t->state->subscribed == 4 } 15, 'all to be told of grants';
$clock->stop;

my $holder = $fleet[3]->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my %asked;
my @all;
for my $k (qw(early late)) {
    for my $n (1 .. 6) {
        my $request = $fleet[$n % 3]->begin("/?k=$k&t=2&n=$n");
        push @{ $asked{$k} }, $request->nonce;
        push @all, $request;
        wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
    }
}
$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @all;

my %key = map { my $k = $_; map { $_ => $k } @{ $asked{$k} } } keys %asked;
my @order = grep { $key{$_} } $up->order;
for my $k (sort keys %asked) {
    is_deeply [grep { $key{$_} eq $k } @order], $asked{$k},
        "$k: order of arrival";
}
for my $n (1 .. 6) {
    my %count = (early => 0, late => 0);
    $count{ $key{$_} }++ for @order[0 .. 2 * $n - 1];
    cmp_ok abs($count{early} - $count{late}), '<=', 2, "turns after $n";
}
is $up->peak, 1, 'limit reached, never exceeded';
$clock->go;

$t->done;
