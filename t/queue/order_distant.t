#!/usr/bin/perl

# A worker knows from its first reply how long a round trip to a distant Redis
# takes. A permit that it releases goes to the head of the queue, not to its own
# request as if Redis were late.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
$proxy->delay(0.2, 's2c');
# without messages there is no other command
$proxy->swallow(match => 'SUBSCRIBE', dir => 'c2s');

my $conf = <<'EOF_CONF';
worker_processes 1;
location / {
    dsem api limit=1 queue=10 timeout=60s priority=$arg_p;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $distant = $clock->node('distant', $conf, REDIS => $proxy->address);
wait_for { $distant->grep_log(qr/connected to redis/) } 15, 'a session';
# nor is there a heartbeat
$clock->step(-3600);

my @own = map { $distant->begin('/?p=0&hang=1') } 1, 2;
wait_for { $up->now == 1 && $t->state->waiting('api') == 1 } 15, 'both asked';
my $other = $t->node('other', $conf)->begin('/?p=-1');
wait_for { $t->state->waiting('api') == 2 } 15, 'the head of the queue';
$up->release(1);
eventually { $other->done || $up->now == 1 } 'permit passed on';
wait_for { $up->release_all; !grep { !$_->done } @own, $other } 15, 'all';
is $_->wait->status, 200, 'request served' for @own, $other;
is +($up->order)[1], $other->nonce, 'head served first';
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
