#!/usr/bin/perl

# A request ends, and others come in the same turn of the event loop, while the
# key of the queue is of another type: Redis executes nothing of the command, so
# the permit is not released. The worker, which has nothing else, sees to that:
# another one gets the permit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem api limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /free {
    return 204;
}
EOF_CONF

my ($a, $b) = map { $t->node($_, $conf) } qw(a b);
my $state = $t->state;

# connections that are there: their requests come in one turn
my @later = map { $a->raw } 1, 2;
sub send_request {
    my ($raw, $path) = @_;
    $raw->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");
}
for (@later) {
    send_request($_, '/free');
    $_->read_until(qr/204/);
}

my $first = $a->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my $key = $state->queue_key('api');
$redis->cmd('SET', $key, 'mine');

$a->freeze;
send_request($_, '/?hang=1') for @later;
$up->release(1);
wait_for { $up->now == 0 } 15, 'its response is sent';
$a->thaw;
is $first->wait->status, 200, 'served';
like $_->read_until(qr/503/), qr/^HTTP\S+ 503/, 'refused' for @later;
is scalar($a->grep_log(qr/"api" unusable .*"\Q$key\E"/)), 1, 'the key is named';

eventually { $b->get('/')->status == 200 } 'another worker has its permit'
    or die;

$redis->cmd('DEL', $key);
is $a->get('/')->status, 200, 'as before';

$t->done;
