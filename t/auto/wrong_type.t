#!/usr/bin/perl

# A foreign key in the place of what is kept of a limit: the limit stays as it
# is, and each worker says so once; nothing else of the semaphore is concerned.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $key = 'dsem:{0}:a:api';

$redis->cmd('SET', $key, 'mine');
my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /kept {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub told { $node->grep_log(qr/\[error\].*limit of semaphore "api" stays/) }

my $load = $t->load_start(clients => 30, seconds => 60,
    urls => [ $node->url('/kept?t=20') ]);
eventually { told() } 'logged';
# as long as two samples
my $told = now;
wait_for { now - $told > 5 } 15, 'the load to go on';
is $redis->cmd('GET', $key), 'mine', 'key not touched';
is $t->state->lowest_limit('api'), 10, 'limit as at the start';

$redis->cmd('DEL', $key);
eventually { $t->state->lowest_limit('api') > 10 } 'key gone: limit moves', 30;
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};
is told(), 1, 'logged once';

$t->done;
