#!/usr/bin/perl

# The key of the tags is of another type while two requests of a worker wait,
# which has nothing else: they are refused, and Redis still has their tickets.
# As soon as the key is deleted the worker begins anew, once: no permit is
# granted to these tickets for good.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem api limit=2 queue=10 timeout=60s fair=$arg_key;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my ($a, $b) = map { $t->node($_, $conf) } qw(a b);
my $state = $t->state;

my @run = map { $b->begin('/?key=x&hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'two at the backend';
my @wait = map { $a->begin("/?key=y$_&hang=1") } 1, 2;
wait_for { $state->waiting('api') == 2 } 15, 'two wait';

my $key = $state->fair_key('api');
$redis->cmd('DEL', $key);
$redis->cmd('SET', $key, 'mine');
is $_->wait->status, 503, 'refused' for @wait;

$redis->cmd('DEL', $key);
eventually { scalar $a->grep_log(qr/usable again/) } 'it begins anew' or die;
$up->release_all;
is $_->wait->status, 200, 'served' for @run;
eventually { $state->held('api') == 0 } 'no permit is granted to them';

$redis->beats(8, 'some polls later');
is scalar($a->grep_log(qr/usable again/)), 1, 'it began anew once';
is scalar($b->grep_log(qr/usable again/)), 0, 'the other one did not';
is $_->get('/?key=z')->status, 200, 'both serve' for $a, $b;

$t->done;
