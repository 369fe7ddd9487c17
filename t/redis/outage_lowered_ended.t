#!/usr/bin/perl

# A pause ends while a worker cannot reach Redis, whose requests go on running.
# It asks for that when it is connected again: when the connection is lost once
# more, its own permits serve.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem $arg_name limit=2 queue=20 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
sub lose {
    $node->clear_logs;
    $proxy->refuse(1);
    $proxy->reset;
    wait_for { scalar $node->grep_log(qr/redis \S+ unavailable/) } 15,
        'no Redis';
}
my @runs = map { $node->begin('/?hang=1&name=api') } 1, 2;
wait_for { $up->now == 2 } 15, 'two at the backend';
$state->order('api', '- 1');
my $leaves = $node->begin('/?hang=1&name=api');
wait_for { $state->waiting('api') == 1 } 15, 'one waits';
is $node->get('/?name=last')->status, 200, 'no reply awaited';
$leaves->close;
wait_for { $state->waiting('api') == 0 } 15, 'it has left';

lose();
$state->drop_orders;
$proxy->refuse(0);
wait_for { scalar $node->grep_log(qr/available again/) } 15, 'Redis is back';
$redis->beats(2, 'a heartbeat');
is $node->get('/?name=last')->status, 200, 'no reply awaited';

lose();
$up->release_nonce($runs[0]->nonce);
is $runs[0]->wait->status, 200, 'one ends';
my $next = $node->begin('/?hang=1&name=api');
eventually { $up->now == 2 } 'its permit serves the next one';

$proxy->refuse(0);
wait_for { $up->release_all; $next->done } 30, 'all end';
is $_->wait->status, 200, 'served' for $runs[1], $next;

$t->done;
