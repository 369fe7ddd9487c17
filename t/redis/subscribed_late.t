#!/usr/bin/perl

# A second node begins while the first one is not subscribed, and misses the
# message about it. The first one asks as soon as it is subscribed, not with its
# next heartbeat, for which its clock hardly moves here: Redis that has lost
# its state then grants nothing until the second node has declared.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my @proxy = map { $t->proxy($redis->address) } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
location / {
    dsem api limit=8 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /turn {
    return 204;
}
EOF_CONF

$proxy[0]->swallow(match => 'SUBSCRIBE', dir => 'c2s');
my $first = $clock->node('first', $conf, REDIS => $proxy[0]->address);
wait_for { $first->grep_log(qr/connected to redis/) } 15, 'the first node';
$clock->step(-3600);

my $second = $t->node('second', $conf, REDIS => $proxy[1]->address);
my @running = map { $second->begin('/?hang=1') } 1 .. 4;
wait_for { $up->now == @running && $t->state->subscribed == 1 } 15, 'the second node';
# no beat of it counts
$proxy[1]->freeze;

wait_for { $proxy[0]->swallowed } 15, 'SUBSCRIBE lost';
$proxy[0]->swallow;
my $beats = $redis->calls->{publish} // 0;
my ($id) = $redis->cmd(qw(CLIENT LIST)) =~ /^id=(\d+) .*name=dsem-first-0-mess/m;
$redis->cmd(qw(CLIENT KILL ID), $id);
eventually { $t->state->subscribed == 2 } 'subscribed again';
# in half a second of its clock, which waits for the proxy and for the node
$clock->stop;
my $steps = 500;
eventually {
    $proxy[0]->accepted;
    $first->get('/turn');
    $clock->step(0.001) if $steps-- > 0;
    ($redis->calls->{publish} // 0) > $beats;
} 'beat at once';
$clock->go;

$redis->kill;
$redis->start;
wait_for { grep { $_ } $t->state->declared } 15, 'the first node is back';
ok $redis->recovering, 'second node waited for';
my @new = map { $first->begin('/?hang=1') } 1 .. 8;
$proxy[1]->cut;
$proxy[1]->thaw;
eventually { $up->now == 8 } 'rest of the permits granted';
is $up->peak, 8, 'limit reached, never exceeded';
$up->release(8);
wait_for { $up->now == 4 } 15, 'the others';
$up->release_all;
is $_->wait->status, 200, 'request served' for @running, @new;

$t->done;
