#!/usr/bin/perl

# Redis lacks one script and has the others: commands behind the one that was
# not executed are. Their replies do not make the worker use a connection that
# still looks for its scripts, and a change by an operator has its answer.

use lib 't/lib';
use Digest::SHA qw(sha1_hex);
use File::Basename qw(basename);

use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('node', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 30s;
dsem_reuse off;
dsem_lease 60s;
location /first {
    dsem first limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /second {
    dsem second limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api write=on; }
EOF_CONF

# Redis has all scripts but this one.
sub lose {
    my ($lost) = @_;
    my @names = map { basename($_, '.lua') } glob $t->root . '/lua/*.lua';
    is_deeply $redis->cmd('SCRIPT', 'EXISTS',
        map { sha1_hex($t->script($_)) } @names), [ (1) x @names ],
        'scripts of the worker';
    # no heartbeat meanwhile
    $proxy->freeze('c2s');
    $redis->cmd('SCRIPT', 'FLUSH');
    $redis->cmd('SCRIPT', 'LOAD', $t->script($_))
        for grep { $_ ne $lost } @names;
    $proxy->thaw('c2s');
}

sub missing {
    return $redis->cmd('INFO', 'errorstats') =~ /NOSCRIPT:count=(\d+)/
        ? $1 : 0;
}

is $node->get('/first')->status, 200, 'redis in use';
$redis->beats(2, 'two heartbeats', 15);
my $accepted = $proxy->accepted;

# an order is sent behind a request

lose('sync');
my $before = missing();
$redis->freeze;
my $sent = $proxy->bytes->{c2s};
my $request = $node->begin('/first');
my $change = $node->begin('/dsem/semaphores/second', -method => 'PATCH',
    -body => '{"limit": 1}', 'Content-Type' => 'application/json');
wait_for { $proxy->bytes->{c2s} > $sent + 400 } 15, 'both commands sent';
$redis->thaw;
is $request->wait->status, 200, 'request served';
is $change->wait->status, 200, 'change answered';
like $change->body, qr/"order":\{"limit":1,/, 'change made';
cmp_ok missing(), '>', $before, 'script was missing';

# the limits of the configuration are sent before the end of a declaration; a
# slow network leaves the time for a request until the scripts are found

lose('configure');
$before = missing();
$proxy->delay(0.5, 'c2s');
$redis->beats(3, 'replies are slow as usual', 15);
$redis->cmd('FLUSHALL');
wait_for { missing() > $before } 15, 'script is missing';
is $node->get('/second')->status, 200, 'new semaphore served';
is $proxy->accepted, $accepted, 'connections kept';
is scalar($node->grep_log(qr/no memory/)), 0, 'nothing fails';

$t->done;
