#!/usr/bin/perl

# nginx as a single process reads its configuration anew while its connections
# to Redis stay. They are made again with the settings that they have,
# certificates included.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis(auth => 'yes');
my $own = $tls->issue('nginx');
my $up = $t->upstream;

my $node = $t->node('single', <<'EOF_CONF',
daemon off;
master_process off;
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%TLS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=3 queue=100 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
    TLS => $tls->to($redis) . " ssl_cert=$own->{cert} ssl_key=$own->{key}"
        . ' ssl_name=redis.test');

is $node->get('/?t=1')->status, 200, 'request served';
# nginx itself has few connections after this
$t->expect_log(qr/worker_connections are not enough/);
$node->signal('HUP');
eventually { $node->grep_log(qr/\] \d+#\d+: reconfiguring/) }
    'configuration read anew';
my $beats = $redis->calls->{publish} // 0;
eventually { ($redis->calls->{publish} // 0) >= $beats + 2 }
    'heartbeat continues';

$node->clear_logs;
$redis->client_kill;
eventually { $node->grep_log(qr/available again/) } 'reconnected';
$beats = $redis->calls->{publish} // 0;
eventually { ($redis->calls->{publish} // 0) >= $beats + 2 }
    'heartbeat continues with the new connection';
$node->stop;

$t->done;
