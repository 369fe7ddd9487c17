#!/usr/bin/perl

# While Redis is unavailable a key pays in the worker's own queue for what it
# was given, and for nothing else: one that comes late does not make up for the
# time before, and clients that leave cost their key nothing.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $proxy = $t->proxy($redis->address);

my $node = $clock->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_reuse off;
dsem_lease 1s;
dsem_log_level info;
location / {
    dsem api limit=2 queue=100 timeout=30s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

# as many requests wait; other pages repeat what they said a moment ago
sub waiting {
    my ($n) = @_;
    my $of = decode_json($node->get('/dsem/semaphores/api')->body);
    return $of->{semaphore}{local}{waiting} == $n;
}

# hold times are known, and the same for both keys; one permit is never free

my $forever = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the first permit';
is $node->get("/?k=$_&t=100")->status, 200, "$_ served" for qw(heavy light);
my $holder = $node->begin('/?k=holder&hang=1&n=2');
wait_for { $up->now == 2 } 15, 'the second permit';

my $gone = now;
$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { now > $gone + 1.5 * $LEASE } 15, 'the end of the lease';
# no request is a slow one
$clock->stop;

my ($n, %is) = (0);
sub ask {
    my ($k, $count) = @_;
    my @requests = map { $node->begin("/?k=$k&hang=1&n=" . $n++) } 1 .. $count;
    $is{ $_->nonce } = $k for @requests;
    return @requests;
}

# The order of all, each begins when the one before it ends; they began at the
# backend after the first $from.
sub serve {
    my ($from, @requests) = @_;
    for my $request (@requests) {
        wait_for { $up->now == 2 } 15, 'the next one';
        my ($last) = reverse grep { $_ ne $forever->nonce } $up->order;
        $up->release_nonce($last);
        wait_for { !grep { !$_->{end} && $_->{nonce} eq $last } $up->log } 15,
            'its end';
    }
    $_->wait for @requests;
    my @order = map { $is{$_} // () } $up->order;
    return @order[$from .. $#order];
}

my @heavy = ask('heavy', 11);
wait_for { waiting(11) } 15, 'heavy tenant';
$up->release_nonce($holder->nonce);
$holder->wait;
for my $request (@heavy[0 .. 7]) {
    wait_for { grep { $_ eq $request->nonce } $up->order } 15, 'its turn';
    $up->release_nonce($request->nonce) if $request != $heavy[7];
}
my @late = ask('light', 4);
wait_for { waiting(7) } 15, 'light tenant';
my @order = serve(8, @heavy[7 .. 10], @late);
# exact turns depend on what was measured
ok +(grep { $_ eq 'heavy' } @order[0 .. 3]), 'late key has turns, no more'
    or note "@order";
is $order[0], 'light', 'the first one is its' or note "@order";

# two new keys; of one all clients leave, the first one first

my $next = $node->begin('/?k=holder&hang=1&n=3');
wait_for { $up->now == 2 } 15, 'the second permit again';
my @stay = ask('stay', 4);
wait_for { waiting(4) } 15, 'one key';
my @leave = ask('leave', 3);
wait_for { waiting(7) } 15, 'clients that will leave';
for my $i (0 .. 2) {
    $leave[$i]->abort;
    wait_for { waiting(6 - $i) } 15, 'one has left';
}
my @again = ask('leave', 1);
wait_for { waiting(5) } 15, 'another one';
$up->release_nonce($next->nonce);
$next->wait;
@order = serve(15, @stay, @again);
my ($turn) = grep { $order[$_] eq 'leave' } 0 .. $#order;
cmp_ok $turn, '<=', 1, 'key has not paid for them' or note "@order";

# Two new keys: as many requests of one, then four of the other one, of which
# those listed leave, then as many again. Returns the order of all.
sub leaving {
    my ($first, $count, $second, $list, $again) = @_;
    my $next = $node->begin("/?k=holder&hang=1&n=$second");
    wait_for { $up->now == 2 } 15, 'the second permit once more';
    my @stay = ask($first, $count);
    wait_for { waiting($count) } 15, 'the first key';
    my @leave = ask($second, 4);
    my $waiting = $count + 4;
    wait_for { waiting($waiting) } 15, 'the second key';
    for (@$list) {
        $leave[$_]->abort;
        $waiting--;
        wait_for { waiting($waiting) } 15, 'one has left';
    }
    my %gone = map { $_ => 1 } @$list;
    my @again = ask($second, $again);
    wait_for { waiting($waiting + $again) } 15, 'requests after them';
    my $from = grep { $is{$_} } $up->order;
    $up->release_nonce($next->nonce);
    $next->wait;
    return serve($from, @stay, @leave[grep { !$gone{$_} } 0 .. 3], @again);
}

@order = leaving('a', 4, 'b', [3, 2, 1], 1);
is scalar(grep { $_ eq 'b' } @order[0 .. 3]), 2,
    'last ones left: their place is used again' or note "@order";
@order = leaving('c', 8, 'd', [0, 1, 2], 3);
is scalar(grep { $_ eq 'd' } @order[0 .. 8]), 4,
    'others left: the next ones are before it' or note "@order";

$up->release_all;
$forever->wait;
is $up->peak, 2, 'limit reached, never exceeded';
$clock->go;
$proxy->refuse(0);
$t->done;
