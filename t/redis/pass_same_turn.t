#!/usr/bin/perl

# The state recovers, and "dsem_on_error pass" lets requests pass. A request
# whose ask is not yet sent when the reply to an earlier one says so does not
# wait for the end of the recovery either. Nor does the second of two requests
# that come in one turn, where the worker has a permit for the first.

use lib 't/lib';
use Dsem::Test;

# s; until then the state recovers
my $LEASE = 60;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout 30s;
dsem_lease 60s;
dsem_on_error pass;
location /pass {
    dsem $arg_name limit=4 queue=100 timeout=50s;
    proxy_pass http://%%UPSTREAM%%;
}
location /connected {
    return 204;
}
EOF_CONF

my $node = $t->node('a', $conf, REDIS => $proxy->address);
my $missing = $t->node('b', $conf);
wait_for { $t->state->session_count == 2 } 15, 'two sessions';
# each has seen the other
$redis->all_beat(2);
my $holder = $node->begin('/pass?name=own&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
$missing->kill;
$redis->empty;
wait_for { eval { $redis->recovering } && $t->state->session_count == 1 } 15,
    'the recovery';
is $node->get('/pass?name=before&t=1')->status, 200, 'request passes';

sub connected {
    my $client = $node->raw->send("GET /connected HTTP/1.1\r\nHost: a\r\n\r\n");
    $client->read_until(qr/ 204 /);
    return $client;
}

my @both = map { connected() } 1, 2;
$up->release_all;
is $holder->wait->status, 200, 'own permit free';
$node->logged($holder);
$node->freeze;
$_->send("GET /pass?name=own&hang=1 HTTP/1.0\r\n\r\n") for @both;
$node->thaw;
eventually { $up->now == 2 } 'one turn: both pass';
$up->release_all;
like $_->read_eof, qr/^HTTP\S+ 200 /, 'one turn: served' for @both;

# the second request arrives in the turn of the reply to the first

for my $name (qw(one two three)) {
    my $second = connected();
    my $asked = $redis->calls->{evalsha};
    $proxy->freeze('s2c');
    my $first = $node->begin("/pass?name=$name&hang=1");
    wait_for { $redis->calls->{evalsha} > $asked } 15, 'the first asks';
    $node->freeze;
    $second->send("GET /pass?name=$name&hang=1 HTTP/1.0\r\n\r\n");
    my $passed = $proxy->bytes->{s2c};
    $proxy->thaw('s2c');
    wait_for { $proxy->bytes->{s2c} > $passed } 15, 'the reply';
    $node->thaw;
    eventually { $up->now == 2 } "$name: both pass";
    $up->release_all;
    is $first->wait->status, 200, "$name: first served";
    like $second->read_eof, qr/^HTTP\S+ 200 /, "$name: second served";
}
ok $redis->recovering, 'state still recovers';
my %status = map { $_->{dsem_status} => 1 }
    grep { $_->{dsem_name} =~ /^(?:one|two|three)$/ } $node->access_log;
is_deeply [ keys %status ], ['DEGRADED'], 'by dsem_on_error';

# the idle permits, before the recovery ends
$node->quit;
$t->done;
