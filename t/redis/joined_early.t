#!/usr/bin/perl

# A second node begins when Redis has executed the first one's hello, and the
# message about it is there before the reply to that. The first one knows both
# numbers: when Redis has lost its state, nothing is granted until the second node
# has declared.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my @proxy = map { $t->proxy($redis->address) } 1, 2;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 60s;
location / {
    dsem api limit=8 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /free { return 204; }
EOF_CONF

# replies of scripts begin with the session; others may come with the first one
$proxy[0]->hold('\*\d+\r\n\$\d+\r\nfirst:');
my $first = $t->node('first', $conf, REDIS => $proxy[0]->address);
wait_for { $t->state->session_count == 1
    && $t->state->subscribed == 1 } 15, 'the first node';

my $before = $proxy[0]->bytes->{s2c};
my $second = $t->node('second', $conf, REDIS => $proxy[1]->address);
my @running = map { $second->begin('/?hang=1') } 1 .. 4;
wait_for { $up->now == @running && $proxy[0]->bytes->{s2c} > $before } 15,
    'the second node, and the message about it';
$first->get('/free') for 1 .. 3;
# no command of it counts
$proxy[1]->freeze;

$redis->cmd('FLUSHALL');
$proxy[0]->thaw;
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
