#!/usr/bin/perl

# A name that only nginx's resolver knows: nginx starts, and the worker resolves
# it when it connects. The name is resolved again at each reconnect: where Redis
# has moved to another address, commands and messages go there.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $port = $redis->port;
my $moved = $t->redis(args => [ '--bind', '127.0.0.2', '--port', $port ]);
my $up = $t->upstream;
my $dns = $t->dns('redis.dsem.test' => [ '127.0.0.1' ]);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis redis.dsem.test:%%REDIS_PORT%%;
resolver %%DNS%%;
# no subscription ends for being silent
dsem_redis_timeout 20s;
dsem_lease 30s;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Status $dsem_status;
    location / {
        dsem api limit=1 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $node = $t->node('a', $conf, REDIS_PORT => $port);
eventually { $node->grep_log(qr/connected to redis 127\.0\.0\.1:$port /) }
    'connected';
is scalar($node->grep_log(qr/\[notice\] .* host not found in address "redis\.dsem\.test:$port" of "dsem_redis" directive, "resolver" is asked at run time/)),
    1, 'unknown name accepted';
is $node->get('/?t=1')->header('X-Status'), 'PASSED', 'request served';

# the same address again; nginx keeps an answer until its second is over

my ($questions, $asked) = ($dns->questions, now);
is $questions, 2, 'asked once';
wait_for { now > $asked + 1.1 } 15, 'answer out of date';
is $dns->questions, $questions, 'not asked while connected';
$redis->client_kill;
eventually { $dns->questions > $questions } 'asked at a reconnect';
eventually { clients($redis) == 2 } 'connected again';

# another one

$asked = now;
$dns->set('redis.dsem.test', '127.0.0.2');
wait_for { now > $asked + 1.1 } 15, 'answer out of date';
is clients($redis), 2, 'connections stay';
my $began = now;
$redis->client_kill;
eventually { clients($moved) == 2 } 'commands and messages at the new address';
note sprintf 'moved in %.3f s', now - $began;
eventually { clients($redis) == 0 } 'none at the old one';

my $held = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'request at the backend';
my $queued = $node->begin('/?t=1');
wait_for { Dsem::State->new($moved)->waiting('api') } 15, 'request queued';
$up->release_all;
is $_->wait->status, 200, 'request served' for $held, $queued;
ok !$node->grep_log(qr/unavailable \(|not resolved/), 'never unavailable';

# connections of the workers
sub clients {
    my ($server) = @_;
    return scalar(() = $server->cmd(qw(CLIENT LIST)) =~ / name=dsem-a-/g);
}

$t->done;
