#!/usr/bin/perl

# The name server does not answer when nginx starts, or has no such name:
# requests are handled by dsem_on_error, and nothing blocks the worker. It
# connects when an answer comes. A worker that waits for one exits at once.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $port = $redis->port;
my $up = $t->upstream;
my $dns = $t->dns('redis.dsem.test' => [ '127.0.0.1' ]);
$dns->silent;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis redis.dsem.test:%%REDIS_PORT%%;
dsem_redis_connect_timeout 500ms;
resolver %%DNS%%;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Status $dsem_status;
    location /limited {
        dsem api limit=5 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /plain {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $node = $t->node('a', $conf, REDIS_PORT => $port);
my $began = now;
eventually { $dns->questions >= 2 } 'asked';

# nginx alone repeats a question after 5 s

my $slowest = 0;
wait_for {
    my $latency = $node->get('/plain?t=1')->took;
    $slowest = $latency if $latency > $slowest;
    $dns->questions >= 3;
} 30, 'several attempts';
my $took = took($began);
note sprintf 'slowest of the requests: %.3f s', $slowest;
cmp_ok $took, '<', 4.5, 'asked more often than nginx repeats a question';
# a question that blocks the worker would take five seconds
cmp_ok $slowest, '<', 1.5, 'other requests served meanwhile';

is scalar($node->grep_log(
    qr/redis redis\.dsem\.test:$port unavailable \(host not resolved in time\)/)), 1,
    'unavailable logged';
ok !$node->grep_log(qr/\[alert\]/), 'no alert';
my $request = $node->get('/limited?t=1');
is $request->status, 200, 'request served';
is $request->header('X-Status'), 'DEGRADED', 'by dsem_on_error';
my ($least) = sort { $a <=> $b } map { $_->took } $request,
    map { $node->get('/limited?t=1') } 1, 2;
cmp_ok $least, '<', 0.4, 'not delayed';

$dns->silent(0);
eventually { $node->grep_log(qr/connected to redis 127\.0\.0\.1:$port /) }
    'connected';
# connected, but its session may not be open yet
eventually { $node->get('/limited?t=1')->header('X-Status') eq 'PASSED' }
    'by a permit';
$node->quit;

# a name that does not exist

$dns->set('redis.dsem.test');
# a late answer would be another cause
$node->write_conf($conf =~ s/(timeout) 500ms/$1 2s/r);
$node->start;
eventually { $node->grep_log(qr/redis\.dsem\.test:$port unavailable \(host not resolved: Host not found\)/) }
    'cause logged';
$node->quit;

$dns->silent;
my $questions = $dns->questions;
$node->start;
eventually { $dns->questions > $questions } 'asked again';
$began = now;
$node->quit;
cmp_ok took($began), '<', 1, 'exits without an answer';

$t->done;
