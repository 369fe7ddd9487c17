#!/usr/bin/perl

# A name that is a pool for some requests and a plain semaphore for others, in one
# worker or on two nodes: those that come second are refused, and the log has the
# reason. Redis is available, and is not blamed.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $pool = $t->node('pool', <<'EOF_CONF');
worker_processes 1;
upstream gpus {
    server %%UPSTREAM%%;
    dsem gpus limit=2/server;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Dsem $dsem_status always;
    location / {
        proxy_pass http://gpus;
    }
    location /plain {
        dsem $arg_n limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $plain = $t->node('plain', <<'EOF_CONF');
worker_processes 1;
add_header X-Dsem $dsem_status always;
location / {
    dsem gpus limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $sentence = quotemeta 'dsem error: semaphore "gpus" unusable (it is a pool '
    . 'for some requests and none for others),';

sub refused_at {
    my ($name, $node, $path, $here, $elsewhere) = @_;
    $node->clear_logs;
    is $node->get($path)->header('X-Dsem'), 'ERROR', "$name: refused";
    is scalar($node->grep_log(qr/$sentence/)), 1, "$name: with the reason";
    is scalar($node->grep_log(qr/redis unavailable/)), 0,
        "$name: Redis is available";
    # a key is not to be deleted: it counts the permits of the other kind
    is_deeply [ map { /dsem: semaphore "gpus" (unusable .*)/ ? $1 : () }
        $node->grep_log(qr/\[error\]/) ],
        [ $here ? "unusable ($here here, and $elsewhere elsewhere), "
            . 'give the pool another name' : () ], "$name: advice";
    is scalar($node->grep_log(qr/delete the key|of another type/)), 0,
        "$name: key kept";
}

my $held = $pool->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a permit of the pool';
refused_at('plain, in the worker of the pool', $pool, '/plain?n=gpus');
refused_at('plain, at another node', $plain, '/', 'a plain semaphore',
    'a pool');
is $pool->get('/')->header('X-Dsem'), 'PASSED', 'the pool is served';
$up->release_all;
$held->wait;
eventually { !$t->state->held('gpus') } 'permit back';

$held = $plain->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a plain permit';
refused_at('pool, at another node', $pool, '/', 'a pool', 'a plain semaphore');
is $plain->get('/')->header('X-Dsem'), 'PASSED', 'the plain one is served';
$up->release_all;
$held->wait;

$t->done;
