#!/usr/bin/perl

# A permit comes free while another request of the same worker waits for the
# reply to its ask, and there is no room for both: the permit does not stay idle
# beside it. It serves that request, also while Redis does not reply.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_timeout 60s;
    dsem_reuse 60s;
    dsem_lease 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

is $node->get('/')->status, 200, 'a permit stays';
wait_for { $t->state->figure('api', 'active') } 15, 'an idle permit';
my $first = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'it serves the next request';

$proxy->freeze('s2c');
my $second = $node->begin('/?hang=1');
wait_for { $t->state->waiting('api') == 1 } 15, 'another one queued';
# a stall makes round trips long, and for two of these a permit that comes free
# is sent to Redis: each beat is a second later than the one before
$redis->all_beat(1) for 1, 2;
$up->release(1);
is $first->wait->status, 200, 'first served';
eventually { $up->now == 1 } 'second admitted before the reply';
$proxy->thaw('s2c');
$up->release_all;
is $second->wait->status, 200, 'second served';
is $up->peak, 1, 'never more than the limit';

$t->done;
