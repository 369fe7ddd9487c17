#!/usr/bin/perl

# limit=0: every request is rejected at once, whatever the queue. Requests
# already running when the limit becomes zero are served.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
add_header X-Dsem $dsem_status always;
location /closed {
    dsem closed limit=0 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /variable {
    dsem variable limit=$arg_limit queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

for my $path ('/closed', '/variable?limit=0') {
    my $refused = $node->get($path);
    is($refused->status, 503, "$path refused");
    is($refused->header('X-Dsem'), 'REJECTED', 'status is REJECTED');
    cmp_ok($refused->took, '<', 15, 'rejected at once');
}
is($up->started, 0, 'no request at backend');

my $served = $node->begin('/variable?limit=1&hang=1');
wait_for { $up->now == 1 };
my $waiting = $node->begin('/variable?limit=1');
wait_for { $t->state->waiting('variable') == 1 };
is($node->get('/variable?limit=0')->header('X-Dsem'), 'REJECTED',
    'limit zero: request rejected');
is($waiting->wait->header('X-Dsem'), 'REJECTED', 'waiting request rejected');
cmp_ok($waiting->took, '<', 5, 'rejected at next check');
$up->release_all;
is($served->wait->status, 200, 'running request served');
is($node->get('/variable?limit=1')->header('X-Dsem'), 'PASSED',
    'limit one: request passes');

my @queues = map { $t->state->queue_key($_) } qw(closed variable);
is($redis->cmd('EXISTS', @queues), 0, 'no queue left');

done_testing();
