#!/usr/bin/perl

# A permit is released while an ask of the same worker is on its way to a full
# semaphore. The permit goes to the first ticket in the queue: it does not stay
# for a later request of that worker.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF', PROXY => $proxy->address);
worker_processes 1;
dsem_redis %%PROXY%%;
dsem_redis_timeout 10s;
location / {
    dsem api limit=2 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $leaves = $node->begin('/?hang=1');
my $stays = $node->begin('/?hang=1');
eventually { $up->now == 2 } 'limit reached';

# from here on replies are slow, but not commands
$proxy->delay(0.5, 's2c');

my $first = $node->begin('/?t=1');
eventually { $t->state->waiting('api') == 1 } 'one ticket in queue';

$leaves->close;
eventually { $up->now == 1 } 'permit released';
my $second = $node->begin('/?hang=1');

is $first->wait->status, 200, 'first in queue served';
# by a grant, or by the permit itself, as the reply to its release is late
like $node->logged($first)->{dsem_status}, qr/^(?:QUEUED|PASSED)$/,
    'first request passed';
eventually { $up->now == 2 } 'second request served next';

$up->release_all;
is $_->wait->status, 200, 'request served' for $stays, $second;

$t->done;
