#!/usr/bin/perl

# A request that is refused, as its name is that of a pool, changes nothing for
# requests of the pool: neither the limit, by which those that ask in the same
# turn are granted, nor the reuse of permits.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse 60s;
upstream gpus {
    server %%UPSTREAM%%;
    dsem gpus limit=2/server queue=5;
}
server {
    listen 127.0.0.1:%%PORT%%;
    listen 127.0.0.1:%%PORT2%% http2;
    add_header X-Dsem $dsem_status always;
    location / {
        proxy_pass http://gpus;
    }
    location /plain {
        dsem $arg_n limit=50;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub verdict { return $node->get($_[0])->header('X-Dsem') }

my @running = map { $node->begin('/?hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'all permits are in use';
my @waiting = map { $node->begin('/?t=1') } 1, 2;
wait_for { $t->state->waiting('gpus') == 2 } 15, 'two requests wait';

my $h2 = Dsem::Http2->new($node->raw(2));
my ($pool, $first) = $h2->request('/?t=1');
my ($plain, $second) = $h2->request('/plain?n=gpus');
$h2->raw->send("$first$second");
is $h2->status($plain), 503, 'refused';
eventually { $t->state->waiting('gpus') == 3 || $up->peak > 2 }
    'the request of the pool waits, too';
is $up->peak, 2, 'limit reached, never exceeded';
$up->release_all;
is $h2->status($pool), 200, 'served';
is $_->wait->status, 200, 'served' for @running, @waiting;

my $held = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the pool is in use';
is verdict('/plain?n=gpus'), 'ERROR', 'refused again';
is verdict('/?t=1'), 'PASSED', 'a permit that stays';
my $asked = $redis->calls->{evalsha};
is verdict('/?t=1'), 'PASSED', 'reused' for 1 .. 20;
cmp_ok $redis->calls->{evalsha} - $asked, '<', 10, 'Redis is not asked';
$up->release_all;
is $held->wait->status, 200, 'served';
# idle permits go back for the others
eventually { verdict('/plain?n=gpus') eq 'PASSED' } 'no pool any more';

$t->done;
