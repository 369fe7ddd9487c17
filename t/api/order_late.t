#!/usr/bin/perl

# A request and a change of a limit are on their way when Redis loses the
# session of their worker. The reply to the request begins a new epoch; that to
# the change, of the older one, begins no other.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 1m;
dsem_lease 60s;
location /limited {
    dsem api limit=2 timeout=30s;
    empty_gif;
}
location /other {
    empty_gif;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

eventually { $node->get('/dsem/health')->status == 200 } 'available';
$proxy->freeze('c2s');
my $request = $node->begin('/limited');
# the worker reads in this order
is $node->get('/other')->status, 200, 'the request is read';
my $change = $node->begin('/dsem/semaphores/api', -method => 'PATCH',
    'Content-Type' => 'application/json', -body => '{"limit": 1}');
is $node->get('/other')->status, 200, 'the change is read';
$t->state->forget($t->state->sessions);
$proxy->thaw('c2s');

is $request->wait->status, 200, 'request served';
is $change->wait->status, 503, 'change not made';
is scalar($node->grep_log(qr/resynchronizing with redis/)), 1,
    'one new epoch';

$t->done;
