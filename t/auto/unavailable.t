#!/usr/bin/perl

# Redis is unavailable: "dsem_on_error local" uses the limit that was found
# last, neither the one at the start nor "max"; so does a worker that has found
# none itself.

use lib 't/lib';
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
dsem_redis_connect_timeout 500ms;
location /local {
    dsem api limit=auto max=100 queue=200 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->lowest_limit('api') } 15, 'the session';
$t->state->set_found('api', $FOUND);
is $node->get('/local')->status, 200, 'a request';
eventually { ($t->state->rule('api')->{found} // 0) == $FOUND } 'its sample';

$redis->stop;
is peak(), $FOUND, 'the limit found last, never exceeded';
ok scalar($node->grep_log(qr/unavailable \(/)), 'redis unavailable';

$node->reload;
wait_for { !$node->draining } 15, 'the new worker alone';
is peak(), $FOUND, 'a new worker: the same';
$redis->start;

$t->done;

# The most requests at once, of many that begin as soon as others have ended.
sub peak {
    $up->reset;
    my @requests = map { $node->begin("/local?hang=1&n=$_") } 1 .. 3 * $FOUND;
    for my $round (1 .. 3) {
        eventually { $up->started == $round * $FOUND }
            "round $round: as many as were found" or die;
        $up->release_all;
    }
    is_deeply [ grep { $_->wait->status ne 200 } @requests ], [],
        'all served';
    return $up->peak;
}
