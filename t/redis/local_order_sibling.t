#!/usr/bin/perl

# While Redis is unavailable a worker knows of a lower order, or of its end, what
# any worker of its node has seen last, also if it has seen another limit itself
# before.

use lib 't/lib';
use Dsem::Test;
use Dsem::Workers;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    add_header X-Dsem $dsem_status always;
    location /pid {
        return 200 $pid,;
    }
    location / {
        dsem $arg_n limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /begins {
        dsem begins limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /ends {
        dsem ends limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $to = Dsem::Workers->new($node);
my ($one, $two) = $to->pids;

$t->state->order('ends', '2 0');
seen($two, '/begins');
seen($two, '/ends');
seen($two, '/?n=after');    # its reply comes after those to the releases before
$t->state->order('begins', '2 0');
$t->state->drop_order('ends');
seen($one, '/begins');
seen($one, '/ends');
$redis->all_beat(2);

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
for my $pid ($one, $two) {
    wait_for { $to->got($pid, '/?n=other') =~ / 200 / } 15, 'the lease is over';
    is $to->admitted($pid, '/begins?', $up), 1, 'half of the order';
    is $to->admitted($pid, '/ends?', $up), 5, 'the order has ended';
}
$redis->start;

$t->done;

# Redis has granted a request of this worker.
sub seen {
    my ($pid, $path) = @_;
    wait_for { $to->got($pid, $path) =~ /PASSED/ } 15, "$path granted";
}
