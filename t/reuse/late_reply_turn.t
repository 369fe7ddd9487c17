#!/usr/bin/perl

# A request has asked, and a permit of its worker stays idle meanwhile. The reply
# becomes late in the turn of the event loop in which another request comes: the
# permit serves the one that has asked.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 60s;
dsem_reuse 60s;
dsem_lease 60s;
location / {
    dsem api limit=20 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /free {
    return 204;
}
EOF_CONF

# a connection that is there, so that its request needs no further turn
my $later = $node->raw;
$later->send("GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
$later->read_until(qr/204/);

is $node->get('/')->status, 200, 'a permit stays';
wait_for { $t->state->figure('api', 'active') } 15, 'an idle permit';
my $first = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'it serves the next request';

# no timer ends but that of a beat, whose reply comes at once
my $asked = $redis->calls->{evalsha};
my $passed = $proxy->bytes->{s2c};
$clock->stop->step(1.5);
wait_for { $redis->calls->{evalsha} > $asked } 15, 'a beat';
wait_for { $proxy->bytes->{s2c} > $passed } 15, 'its reply';
$proxy->freeze('s2c');
my $second = $node->begin('/?hang=1', 'X-Nonce' => 'asked');
wait_for { $t->state->held('api') == 2 } 15, 'another one has asked';
$clock->step(0.02);
$up->release(1);
is $first->wait->status, 200, 'first served';
$node->logged($first);
is $up->now, 0, 'its permit is idle';

# a reply is late after 30 ms; the worker wakes up for the request
$clock->step(0.02);
$later->send("GET /?hang=1 HTTP/1.1\r\nHost: a\r\nX-Nonce: came\r\n\r\n");
eventually { $up->now == 1 } 'it serves a request' or die;
is +($up->order)[-1], 'asked', 'the one that has asked';

$proxy->thaw('s2c');
$clock->go;
wait_for { $up->now == 2 } 15, 'the other one';
$up->release_all;
is $second->wait->status, 200, 'served';
like $later->read_until(qr/200/), qr/200/, 'both';
# what is idle stays for a minute
$node->quit;

$t->done;
