#!/usr/bin/perl

# With "resolver_timeout 0" nginx asks a silent name server for ever: the last
# known address is used as soon as with any other.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $dns = $t->dns('redis.dsem.test' => [ '127.0.0.1' ]);

my $node = $t->node('a', <<'EOF_CONF', REDIS_PORT => $redis->port);
worker_processes 1;
dsem_redis redis.dsem.test:%%REDIS_PORT%%;
dsem_redis_connect_timeout 2s;
resolver %%DNS%%;
resolver_timeout 0;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=5;
        return 204;
    }
}
EOF_CONF
eventually { $node->grep_log(qr/connected to redis/) } 'connected';

$dns->silent;
# nginx keeps an answer until its second is over
my $asked = now;
wait_for { now > $asked + 1.1 } 15, 'answer out of date';
$redis->client_kill;
eventually { $node->grep_log(qr/not resolved \(Operation timed out\), its last/) }
    'the last known address';
eventually { $node->get('/')->status == 204 } 'served again';

$t->done;
