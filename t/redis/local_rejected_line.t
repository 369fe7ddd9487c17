#!/usr/bin/perl

# A request that is rejected while Redis is unavailable: the line has the permits
# of the worker and the reason, not free permits of the fleet beside a full queue,
# also where the worker has none. A lower limit in force is that of the line, and
# a retry is of no use then.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 300ms;
dsem_lease 30s;
add_header X-Dsem $dsem_status always;
location / {
    dsem $arg_n limit=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /ordered {
    dsem ordered limit=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/?n=quiet')->header('X-Dsem'), 'PASSED', 'nothing of it is kept';
my $held = $node->begin('/?n=api&hang=1');
wait_for { $up->now == 1 } 15, 'a permit';
$t->state->order('ordered', '0 0');
is $node->get('/ordered')->header('X-Dsem'), 'REJECTED', 'limit 0 is in force';

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
$node->clear_logs;

for (['api', 1], ['quiet', 0]) {
    my ($name, $held) = @$_;
    my $response = $node->get("/?n=$name");
    is $response->header('X-Dsem'), 'REJECTED', "$name: rejected";
    ok $response->header('Retry-After'), "$name: a retry may pass";
    is_deeply [ lines() ], [ qq(semaphore "$name" has $held permits in use in )
        . 'this worker and its share of the queue is full, redis unavailable' ],
        "$name: the reason";
    $node->clear_logs;
}
my $response = $node->get('/ordered');
is $response->header('X-Dsem'), 'REJECTED', 'lower limit: rejected';
is $response->header('Retry-After'), undef, 'lower limit: a retry cannot pass';
is_deeply [ lines() ], [ 'weight 1 exceeds limit 0 of semaphore "ordered"' ],
    'lower limit: the reason';

$up->release_all;
$held->wait;
$redis->start;

$t->done;

sub lines {
    return map { /dsem rejected: (.*?), client:/ ? $1 : () }
        split /\n/, $node->error_log;
}
