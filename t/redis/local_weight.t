#!/usr/bin/perl

# While Redis is unavailable a request that is heavier than its worker's share
# waits for Redis, and lighter ones are served past it. They are in order among
# themselves. Where the share grows beyond its weight the heavy one is served
# in its turn; it has its place when Redis is available again. Heavy ones take
# places of the worker's share of the queue, as all others.

use lib 't/lib';
use Dsem::Test;

use JSON::PP qw(decode_json);

my $LEASE = 1;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 1s;
dsem_reuse off;
dsem_lease 1s;
dsem_status 503 timeout=504;
location /export {
    dsem db limit=$arg_limit queue=20 timeout=60s weight=4;
    proxy_pass http://%%UPSTREAM%%;
}
location /api {
    dsem db limit=$arg_limit queue=20 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location /pair {
    dsem db limit=$arg_limit queue=20 timeout=10s weight=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /no_queue {
    dsem db limit=$arg_limit;
    proxy_pass http://%%UPSTREAM%%;
}
location /cut {
    dsem cut limit=6 queue=2 timeout=60s weight=$arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF
my ($node, $other) = $t->fleet(2, $conf, REDIS => $proxy->address);

sub said { join ' ', @{ $node->logged($_[0]) }{qw(status dsem_status)} }
sub begin { $node->begin("/$_[0]limit=6") }
sub waiting {
    return $_->{waiting} for map { $_->{local} } grep { $_->{name} eq 'db' }
        @{ decode_json($node->get('/dsem/semaphores')->body)->{semaphores} };
}
# one after the other: this worker has so many then
sub waits {
    my ($n, $path) = @_;
    my $request = begin($path);
    wait_for { waiting() == $n } 15, "$n waiting";
    return $request;
}
sub starts {
    my ($request) = @_;
    wait_for { grep { $_ eq $request->nonce } $up->order } 15, 'it starts';
}

# each has seen the other: a share of 3
$redis->all_beat(2);

# a share of one place: the fence has passed when Redis is unavailable

my @holds = map { $_->begin('/cut?hang=1&weight=3') } $node, $other;
wait_for { $up->now == 2 } 15, 'all permits in use';
my ($stays, $leaves) = map {
    my ($n, $request) = ($_, $node->begin('/cut?t=1&weight=4'));
    wait_for { $t->state->waiting('cut') == $n } 15, "$n waiting";
    $request;
} 1, 2;
my $gone = now;
$proxy->refuse;
$proxy->cut;
wait_for { $leaves->done } 15, 'the queue is cut down';
is said($leaves), '503 REJECTED', 'heavy one at the end leaves it';
$up->release_all;
is $_->wait->status, 200, 'served' for @holds;
ok !$stays->done, 'heavy one before it stays';
wait_for { now > $gone + 2 * $LEASE } 15, 'the end of the lease';
$up->reset;

my @heavy = map { waits($_, 'export?') } 1, 2;
is said($node->get('/api?limit=6')), '200 DEGRADED', 'light one served';
is said($node->get('/no_queue?limit=6')), '200 DEGRADED', 'also without a queue';
my @light = map { begin('api?hang=1&') } 1 .. 3;
wait_for { $up->now == 3 } 15, 'light ones in the share';

# none is passed that the share could serve

my $pair = waits(3, 'pair?hang=1&');
my $last = waits(4, 'api?hang=1&');
$up->release_nonce($light[0]->nonce);
is $light[0]->wait->status, 200, 'one permit is free';
is $up->started, 5, 'nobody has passed the next one';
$up->release_nonce($light[1]->nonce);
starts($pair);
is $up->started, 6, 'next one served';
$up->release_nonce($light[2]->nonce);
starts($last);
is $up->peak, 3, 'never more than the share';

# a share of 4: the heavy ones are first

$up->release_nonce($_->nonce) for $pair, $last;
is $_->wait->status, 200, 'served' for $pair, $last;
ok !$_->done, 'heavy one waits' for @heavy;
my $begun = $up->started;
my $behind = $node->begin('/api?limit=8');
is $behind->wait->status, 200, 'light one served after them';
is_deeply [ ($up->order)[ $begun .. $begun + 2 ] ],
    [ map { $_->nonce } @heavy, $behind ], 'in the order of arrival';
is said($_->wait), '200 DEGRADED', 'heavy one served' for @heavy;

# Redis is back: nobody passes a heavy one

my ($first, $second) = map { waits($_, "export?hang=1&n=$_&") } 1, 2;
is said($node->get('/api?limit=6')), '200 DEGRADED', 'light one served';
$proxy->refuse(0);
starts($first);
eventually { $t->state->waiting('db') == 1 } 'the other has its place';
my @behind = map { waits($_, 'api?hang=1&') } 2 .. 4;
eventually { $t->state->waiting('db') == 4 } 'nobody passes it';
$up->release_nonce($first->nonce);
# behind all three others it would not
starts($second);
$up->release_nonce($second->nonce);
starts($_) for @behind;
$up->release_all;
is $_->wait->status, 200, 'served by redis' for $first, $second, @behind;
is $stays->wait->status, 200, 'also the first one';

$t->done;
