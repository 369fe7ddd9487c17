#!/usr/bin/perl

# Priority classes are outside: a request of a better class is served first,
# whatever its key has had. Inside each class keys take turns.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my @fleet = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 10m;
location / {
    dsem api limit=1 queue=50 timeout=20s priority=$arg_p fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a worker serves its own next request while a reply is late: none ever is
wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
$clock->stop;

my $holder = $fleet[0]->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my (@all, %is);
sub ask {
    my ($k, $p) = @_;
    my $request = $fleet[@all % 2]->begin("/?k=$k&p=$p&t=2");
    push @all, $request;
    $is{ $request->nonce } = "$k$p";
    wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
}

ask(@$_) for (['light', 1], ['light', 1], (map { ['heavy', 0] } 1 .. 4),
    ['light', 0], ['light', 0], (map { ['heavy', -2] } 1 .. 3), ['light', -2]);
$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @all;

my @order = map { $is{$_} // () } $up->order;
is_deeply [map { /(-?\d)$/ } @order], [(-2) x 4, (0) x 6, 1, 1],
    'classes in order' or note "@order";
my @best = @order[0 .. 3];
my ($turn) = grep { $best[$_] eq 'light-2' } 0 .. 3;
cmp_ok $turn, '<', 2, 'turns in the best class';
my @middle = @order[4 .. 9];
is scalar(grep { $_ eq 'light0' } @middle[0 .. 3]), 2,
    'turns in the middle class' or note "@middle";
is $up->peak, 1, 'limit reached, never exceeded';
$clock->go;

$t->done;
