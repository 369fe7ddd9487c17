#!/usr/bin/perl

# A node starts while Redis is unavailable. It knows no other node, so its
# workers share the limit at once, without a later reload.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 5);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
$proxy->refuse;

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_redis_connect_timeout 200ms;
dsem_lease 5s;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    location /starts {
        dsem api limit=8 queue=100 timeout=20s;
        proxy_set_header X-Sem $pid;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /nothing {
        dsem nothing limit=0 queue=100 timeout=20s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $load = $t->load_start(urls => [ $node->url('/starts?t=50') ],
    clients => 40, seconds => 600);
eventually { $up->peak == 8 } 'whole limit used', 3;
my $served = $up->served;
wait_for { $up->served > $served + 30 } 15, 'the load to go on';
is $up->peak, 8, 'limit reached, never exceeded';
is_deeply [ keys %{ { map { $_->{dsem_status} => 1 } $node->access_log } } ],
    ['DEGRADED'], 'status is DEGRADED';
is $up->peak($_), 4, 'half for each worker' for $node->workers;
is $node->get('/nothing')->status, 503, 'nothing of a limit of 0';

$proxy->refuse(0);
eventually { $t->state->session_count == 2 } 'redis used without reload', 2;
eventually { grep { $_->{dsem_status} eq 'QUEUED' } $node->access_log }
    'granted by redis';
$served = $up->served;
wait_for { $up->served > $served + 30 } 15, 'the load to go on';
is $up->peak, 8, 'limit kept during return';
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

$t->done;
