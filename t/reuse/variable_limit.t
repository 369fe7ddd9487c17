#!/usr/bin/perl

# A limit from a variable: whoever asks with another one than Redis was told
# is not served by an idle permit.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=$arg_limit queue=10 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub held { return $redis->cmd('HGET', 'dsem:{0}:s:api', 'held') // 0 }

sub two_idle {
    my @two = map { $node->begin('/?limit=4&t=20') } 1, 2;
    $_->wait for @two;
    return held() == 2;
}

eventually { two_idle() } 'two permits stay', 15;

is $node->get('/?limit=0')->status, 503, 'limit=0: nothing passes';
is held(), 0, 'nor is anything idle';

eventually { two_idle() } 'with the old limit it is as before', 15;

my $one = $node->begin('/?limit=4&hang=1');
eventually { $up->now == 1 } 'one is served';
my $two = $node->begin('/?limit=1&hang=1');
eventually { ($redis->cmd('HGET', 'dsem:{0}:s:api', 'waiting') // 0) == 1 }
    'with a limit of 1 the next one waits';
is $redis->cmd('HGET', 'dsem:{0}:s:api', 'limit'), 1, 'which Redis knows';
is $up->now, 1, 'and the upstream does not';

$up->release_all;
is $one->wait->status, 200, 'served';
eventually { $up->now == 1 } 'the next one';
$up->release_all;
is $two->wait->status, 200, 'served too';

$t->done;
