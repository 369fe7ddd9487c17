#!/usr/bin/perl

# A worker knows from its first reply how long a round trip to a distant Redis
# takes. A permit that it releases goes to the head of the queue, not to its own
# request as if Redis were late.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s; of a round trip, at least
my $TRIP = 0.3;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
$proxy->delay($TRIP, 's2c');
# without messages there is no other command
$proxy->swallow(match => 'SUBSCRIBE', dir => 'c2s');

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
location / {
    dsem api limit=1 queue=10 timeout=60s priority=$arg_p;
    proxy_pass http://%%UPSTREAM%%;
}
location /sign {
    dsem sign limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /turn {
    return 204;
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

# Time goes by for the worker, and its timers end.
sub goes_by {
    my ($trips) = @_;
    $clock->step($trips * $TRIP);
    $distant->get('/turn') for 1, 2;
}

# All replies that are outstanding come, and none was quicker: the last one is that
# to a sign, as the counts of waiting requests have been compared before.
$proxy->freeze('s2c');
$clock->stop;
goes_by(3);
my $sign = $distant->begin('/sign?hang=1');
wait_for { $t->state->held('sign') == 1 } 15, 'asked for a sign';
goes_by(1);
$proxy->thaw('s2c');
wait_for { $up->now == 2 } 15, 'a reply';

# no reply has come for long, and the next one is much later than usual, but not
# four times as late
$proxy->freeze('s2c');
goes_by(4);
$up->release(1);
wait_for { grep { $_->done } @own } 15, 'a permit comes free';
goes_by(3.8);
$proxy->thaw('s2c');
eventually { $other->done || $up->now == 2 } 'permit passed on';
$clock->go;
wait_for { $up->release_all; !grep { !$_->done } @own, $sign, $other } 15, 'all';
is $_->wait->status, 200, 'request served' for @own, $sign, $other;
is +($up->order)[2], $other->nonce, 'head served first';
is $up->peak, 2, 'limit reached, never exceeded';

$t->done;
