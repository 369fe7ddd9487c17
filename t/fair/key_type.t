#!/usr/bin/perl

# The key of the tags is of another type, while a request runs and others wait:
# the log names this key, and no other: to delete another one would free permits
# that are in use.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem api limit=1 queue=10 timeout=20s fair=$arg_key;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
my $runs = $node->begin('/?key=a&hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my @wait = map { $node->begin('/?key=a') } 1, 2;
wait_for { $state->waiting('api') == 2 } 15, 'two wait';

my $key = $state->fair_key('api');
$redis->cmd('DEL', $key);
$redis->cmd('SET', $key, 'mine');
is $node->get('/?key=b')->status, 503, 'refused';
is_deeply [ map { /(key ".*)/ ? $1 : () } $node->grep_log(qr/dsem: semaphore/) ],
    [ qq{key "$key" in redis is of another type), delete the key} ],
    'this key is named and no other';

$redis->cmd('DEL', $key);
my $next = $node->begin('/?key=b');
wait_for { $state->waiting('api') >= 1 } 15, 'the next one waits';
is $up->now, 1, 'the one that runs is counted';
$up->release_all;
is $_->wait->status, 200, 'served' for $runs, $next;
$_->wait for @wait;

$t->done;
