#!/usr/bin/perl

# An operator ends an order while Redis recovers: that shows no limit in force, as
# nodes that ask for a lower one may not have registered again. Theirs is kept
# when Redis is unavailable then, and so is a new order.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem tenant:$arg_t limit=8;
    proxy_pass http://%%UPSTREAM%%;
}
location /api {
    dsem api limit=%%LIMIT%%;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF
my $lower = $t->node('lower', $conf, LIMIT => 2);
my $node = $clock->node('a', $conf, LIMIT => 8);
$redis->all_beat(2);
is $up->admitted(map { $node->begin('/api?hang=1') } 1 .. 5), 2,
    'the limit of the other node';

$lower->freeze;
$redis->empty;
wait_for { $node->grep_log(qr/available again/) } 15, 'redis available';
$redis->beats(2, 'replies of the new state');
order('api', 'null');
order('tenant:new', 4);
ok $redis->recovering, 'while redis recovers';

$node->clear_logs;
$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
$clock->step(120);
wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';
is $up->admitted(map { $node->begin('/api?hang=1') } 1 .. 5), 1,
    'half of the lower limit';
is $up->admitted(map { $node->begin('/?t=new&hang=1') } 1 .. 5), 2,
    'half of the order';
$redis->start;
$lower->thaw;
$t->done;

sub order {
    my ($name, $limit) = @_;
    my $answer = $node->get("/dsem/semaphores/$name", -method => 'PATCH',
        -body => qq({"limit":$limit}), 'Content-Type' => 'application/json');
    is $answer->status, 200, "$name: $limit";
    # else nginx waits for more of its body, in vain
    return $answer->close;
}
