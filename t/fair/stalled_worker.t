#!/usr/bin/perl

# A worker is stopped while a request of one key runs and requests of two keys
# wait: no key is charged for that time, their turns stay as they were. Nor is
# that time expected of the next requests of the key.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# ms that a request takes, s that the worker is stopped: much longer than a
# request may run before its key is charged, five times as long as usual
my ($USUAL, $STOPPED) = (500, 3.8);

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);
my $node = $clock->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_redis_timeout 30s;
dsem_lease 60s;
location / {
    dsem api limit=2 queue=50 timeout=60s fair=$arg_k;
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

sub lease_end { return (values %{ $t->state->lease_ends })[0] }

# the worker's account lives as long as this one
my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
is $node->get("/?k=$_&t=$USUAL")->status, 200, "$_: as usual" for qw/a b/;
# no time passes for the worker but that in which it is stopped
$clock->stop;
begin('a', 'hang=1');
wait_for { $up->now == 2 } 15, 'all permits';
for (qw/a b a b/) {
    begin($_, 't=2');
    my $n = @all - 1;
    wait_for { $t->state->waiting('api') == $n } 15, 'in the queue';
}
my $places = $t->state->places('api');

$node->freeze;
$clock->step($STOPPED);
my $lease = lease_end();
$node->thaw;
# one heartbeat: no other is due before its clock goes on
wait_for { lease_end() > $lease } 30, 'the worker runs';
is_deeply $t->state->places('api'), $places, 'no ticket was moved';

$up->release_nonce($all[0]->nonce);
is $_->wait(30)->status, 200, 'served' for @all;
is join('', map { $is{$_} // () } $up->order), 'aabab', 'in their turns';

# two of a key: the later one is behind the other by its expected time
my $other = $node->begin('/?k=other&hang=1');
wait_for { $up->now == 2 } 15, 'all permits again';
for my $n (1, 2) {
    begin('a', 't=2');
    wait_for { $t->state->waiting('api') == $n } 15, 'in the queue';
}
my ($first, $second) = sort { $a <=> $b } values %{ $t->state->places('api') };
# a mean of four requests, with a stop of 3.8 s it would be above 4,300,000
cmp_ok $second - $first, '<', 3_500_000, 'the key is not a slow one';
$up->release_all;
is $_->wait->status, 200, 'the holder, and the other one'
    for $holder, $other;
$clock->go;

$t->done;
