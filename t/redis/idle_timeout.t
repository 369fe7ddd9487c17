#!/usr/bin/perl

# Redis closes idle connections after "timeout" seconds, as load balancers do;
# not those of subscribers. The heartbeat is faster than the shortest one.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $up = $t->upstream;
my $redis = $t->redis(args => [qw(--timeout 2)]);

my $node = $t->node('single', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1h;
location / {
    dsem api limit=1 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/')->status, 200, 'served';
my $idle = $t->connect;
$idle->cmd(qw(CLIENT SETNAME idle));
wait_for { $redis->cmd(qw(CLIENT LIST)) !~ /name=idle/ } 15, 'a closed one';
$redis->beats(1, 'the connections of nginx are used');
ok !eval { $idle->cmd('PING') }, 'an idle connection is closed';
is scalar($node->grep_log(qr/connected to redis/)), 1, 'connected once';
is scalar($node->grep_log(qr/reconnecting/)), 0, 'and never lost';
is $node->get('/')->status, 200, 'served again';

$t->done;
