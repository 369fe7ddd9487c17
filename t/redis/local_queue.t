#!/usr/bin/perl

# While Redis is unavailable, a worker has its share of the queue. Requests
# that wait at the outage keep waiting in order, up to the share. Further
# requests are rejected at once. Closed queues stay closed.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_reuse off;
dsem_lease 1s;
location /queued {
    dsem api limit=4 queue=6 timeout=20s priority=$arg_class;
    proxy_pass http://%%UPSTREAM%%;
}
location /no_queue {
    dsem bare limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /closed {
    dsem closed limit=0 queue=6;
    proxy_pass http://%%UPSTREAM%%;
}
location /heavy {
    dsem heavy limit=6 queue=6 timeout=20s weight=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my ($node, $other) = $t->fleet(2, $conf, REDIS => $proxy->address);

sub waiting { $t->state->waiting('api') }
sub said { join ' ', @{ $_[0]->logged($_[1]) }{qw(status dsem_status)} }

# each has seen the other
$redis->all_beat(2);

# a share of three places, and five waiting requests; a share of two permits,
# which it has: the fence changes nothing

my @holds = map { $node->begin("/queued?hang=1&n=$_") } 1, 2;
my @others = map { $other->begin("/queued?hang=1&n=$_") } 3, 4;
eventually { $up->now == 4 } 'four are running';
my ($a, $b, $c, $d, $best) = map {
    my $request = $node->begin("/queued?hang=1&$_");
    my $n = ++(our $begun);
    wait_for { waiting() == $n } 15, "$n waiting";
    $request;
} 'class=0', 'class=0', 'class=0', 'class=1', 'class=-1';

my $before = $t->state->entries;
my $gone = now;
$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';

$_->wait for $c, $d;
is said($node, $_), '503 REJECTED', 'excess request rejected' for $c, $d;
cmp_ok took($gone), '<', 3, 'rejected at once';
ok !$_->done, 'tickets kept' for $a, $b, $best;

# no place is left

my $more = $node->get('/queued');
is said($node, $more), '503 REJECTED', 'queue share full';
cmp_ok $more->took, '<', 2, 'rejected at once';
is said($node, $node->get('/closed')), '503 REJECTED',
    'closed queue stays closed';

# in order as permits come free

# one after the other: of requests that begin together any may be the first one
# at the backend
for my $ends (@holds, $best) {
    my $started = $up->started;
    $up->release_nonce($ends->nonce);
    is $ends->wait->status, 200, 'request served';
    wait_for { $up->started > $started } 15, 'next request served';
}
is_deeply [ ($up->order)[ 4 .. 6 ] ], [ map { $_->nonce } $best, $a, $b ],
    'better class first, then the oldest';
$up->release_nonce($a->nonce);
is $a->wait->status, 200, 'oldest served';
is said($node, $_), '200 DEGRADED', 'status is DEGRADED' for $best, $a;
is $up->peak, 4, 'limit reached, never exceeded';
$up->release_all;
is $_->wait->status, 200, 'request served' for $b, @others;

# a lease later: its share of the limit, and of the places

wait_for { now > $gone + 1.5 * $LEASE } 15, 'the end of the lease';
my @served = map { $other->begin("/queued?hang=1&n=$_") } 5, 6;
eventually { $up->now == 2 } 'other node has its permits';
my @wait = map { $other->begin('/queued?t=1') } 1 .. 3;
$more = $other->get('/queued?t=1');
is said($other, $more), '503 REJECTED', 'fourth request rejected';
ok !$_->done, 'three requests queued' for @wait;
my $bare = $other->begin('/no_queue?hang=1');
eventually { $up->now == 3 } 'queue=0 served once';
is said($other, $other->get('/no_queue')), '503 REJECTED',
    'second without place rejected';
is said($other, $other->get('/closed')), '503 REJECTED',
    'queue still closed';
my $heavy = $other->begin('/heavy?t=1');
$up->release_all;
is $_->wait->status, 200, 'request served' for @served, @wait, $bare;

# heavier than any share: the request waits for Redis

ok !$heavy->done, 'heavy request queued';
$proxy->refuse(0);
is $heavy->wait->status, 200, 'heavy request served by redis';

# requests queued in the outage are like all others afterwards

is said($other, $other->get('/closed')), '503 REJECTED', 'queue closed anyway';
# until a node has declared again, Redis counts what it had
wait_for {
    my $entries = $t->state->entries;
    2 == grep { ($entries->{$_}{declared} // 0) > $before->{$_}{declared} }
        keys %$before;
} 15, 'both nodes back';
is said($other, $other->get('/queued?t=1')), '200 PASSED', 'served as before';

$t->done;
