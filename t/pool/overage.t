#!/usr/bin/perl

# The lease of a worker ends while its request is at a server, and the server is
# granted to another worker: an overage. As long as it may last, the worker
# passes no other request there on permits of its own, whatever is free at other
# servers, until the fence or after it; after the lease it passes one at a time,
# as a worker that had none. A worker that exits when its lease is long over does
# not speak of permits that Redis has.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $LEASE = 600;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 1m;
dsem_lease 10m;
upstream gpus {
    $servers
    dsem gpus limit=1/server;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_read_timeout 9h;
    location / {
        proxy_pass http://gpus;
    }
}
EOF_CONF
my $cut = $clock->node('cut', $conf, REDIS => $proxy->address);
my $other = $clock->node('other', $conf);

sub running { return join ' ', map { $_->now } @up }

my $first = $cut->begin('/?hang=1');
wait_for { running() =~ /1/ } 15, 'a request at a server';
# it is at the first server
@up = reverse @up if $up[1]->now;

# an overage at the first server

$proxy->refuse;
$proxy->cut;
wait_for { $cut->grep_log(qr/unavailable \(/) } 15, 'the node cut off';
$t->state->lapse(grep { /^cut:/ } $t->state->sessions);
wait_for { $t->state->session_count == 1 } 15, 'its session ended';
my @more = map { $other->begin('/?hang=1') } @up;
eventually { running() eq '2 1' } 'its server granted to the other worker';
$up[1]->release(1);
$proxy->refuse(0);
eventually { $cut->grep_log(qr/overage of 1 permits of "gpus"/) } 'overage';
eventually { $t->state->held('gpus') == 2 } 'two permits at one server';
is $cut->get('/')->status, 200, 'served by the other server';

# Redis is lost before that has ended

# logged when it lasts
wait_for { $cut->grep_log(qr/available again/) } 15, 'the node is back';
$redis->kill;
wait_for {
    $cut->grep_log(qr/unavailable \(/) > 1
        && $other->grep_log(qr/unavailable \(/)
} 15, 'Redis unavailable';
$up[0]->release_nonce($first->nonce);
is $first->wait->status, 200, 'the request of the overage has ended';
for my $when ('until the fence', 'after it') {
    is $cut->get('/')->status, 503, "$when: its permit serves no other one";
    is running(), '1 0', "$when: one request at the server";
    $up[0]->release_all;
    # without a queue the next one is rejected until its worker knows that
    wait_for { !grep { !$_->done } @more } 15, 'it ends';
    push @more, $other->begin('/?hang=1');
    eventually { running() eq '1 0' } "$when: the other worker continues";
    # the fence is at three quarters of the lease
    $clock->step($LEASE * 0.8) if $when eq 'until the fence';
}
$clock->step($LEASE);
push @more, $cut->begin('/?hang=1');
eventually { $up[0]->now + $up[1]->now == 2 } 'after the lease: one request';
is $cut->get('/')->status, 503, 'not more than one';
$_->release_all for @up;
is $_->wait->status, 200, 'request served' for @more;
is join(' ', map { $_->peak } @up), '2 1', 'no other overage';

$_->quit for $cut, $other;
is scalar(map { $_->grep_log(qr/exiting without/) } $cut, $other), 0,
    'no permits to be released';
$redis->start;

$t->done;
