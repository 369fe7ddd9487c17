#!/usr/bin/perl

# The key of a semaphore's queue is of another type, while nothing waits: a
# request that would have to wait is refused, and those that run stay counted.

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
    dsem api limit=2 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my ($a, $b) = map { $t->node($_, $conf) } qw(a b);
my $state = $t->state;
my @runs;
for my $n (1, 2) {
    push @runs, $a->begin('/?hang=1', 'X-Nonce' => $n);
    wait_for { $up->now == $n } 15, "$n at the backend";
}

my $key = $state->semaphore_key('api') =~ s/:s:api$/:q:api/r;
$redis->cmd('SET', $key, 'mine');
is $a->get('/')->status, 503, 'a request that would have to wait';
is scalar($a->grep_log(
    qr/dsem error: semaphore "api" unusable \(a key of it in redis is of/)), 1,
    'refused with the reason';
# to delete another key as well would free the permits of those that run
is_deeply [ map { /(key ".*)/ ? $1 : () } $a->grep_log(qr/dsem: semaphore/) ],
    [ qq{key "$key" in redis is of another type), delete the key} ],
    'this key is named and no other';

# its release needs no queue
$up->release_nonce(1);
is $runs[0]->wait->status, 200, 'one ends';
wait_for { $state->held('api') == 1 } 15, 'the other one is counted';
push @runs, $b->begin('/?hang=1', 'X-Nonce' => 3);
wait_for { $up->now == 2 } 15, 'one more';
is $b->get('/')->status, 503, 'and no third one';
is $up->peak, 2, 'the limit is kept';

$redis->cmd('DEL', $key);
$up->release_all;
is $_->wait->status, 200, 'served' for @runs[1, 2];
is $a->get('/')->status, 200, 'as before';

$t->done;
