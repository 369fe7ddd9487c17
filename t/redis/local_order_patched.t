#!/usr/bin/perl

# A pause, a lower limit and the end of either that an operator orders through a
# node last there while Redis is unavailable, also where no request of the name
# has come since: the reply to the order has shown them.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $small = $t->upstream->address;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF', SMALL => $small);
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
add_header X-Dsem $dsem_status always;
upstream gpus {
    server %%UPSTREAM%%;
    dsem gpus limit=4/server;
}
upstream drained {
    server %%UPSTREAM%% max_conns=4;
    server %%SMALL%% max_conns=1;
    dsem drained limit=max_conns;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem tenant:$arg_t limit=4;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /api {
        dsem api limit=4;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /raised {
        dsem raised limit=4;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /auto {
        dsem auto limit=auto min=1 max=8;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /gpus {
        proxy_pass http://gpus;
    }
    location /drained {
        proxy_pass http://drained;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

sub path {
    my ($name) = @_;
    return $name =~ /^tenant:(.*)/ ? "/?t=$1&hang=1" : "/$name?hang=1";
}

sub order {
    my ($name, $order) = @_;
    my $answer = $node->get("/dsem/semaphores/$name", -method => 'PATCH',
        -body => $order, 'Content-Type' => 'application/json');
    is $answer->status, 200, "$name: $order";
    # else nginx waits for more of its body, in vain
    return $answer->close;
}

# How many of five requests of a name are admitted.
sub admitted {
    my ($name) = @_;
    return $up->admitted(map { $node->begin(path($name)) } 1 .. 5);
}

# in force, and then ended
order("tenant:$_", '{"paused":true}') for qw(resumed resumed2);
order('tenant:raised', '{"limit":1}');
order('raised', '{"limit":1}');
is admitted('tenant:resumed'), 0, 'a pause is in force';
is admitted('tenant:raised'), 1, 'a lower limit is in force';
is admitted('raised'), 1, 'a lower limit of a literal name is in force';
order("tenant:$_", '{"paused":false}') for qw(resumed resumed2);
order('tenant:raised', '{"limit":null}');
order('raised', '{"limit":null}');

# requests came before only
my @names = ('tenant:used', 'tenant:paused', 'api', 'auto');
is admitted($_), 4, "$_ is in use" for @names[0 .. 2];
cmp_ok admitted('auto'), '>=', 1, 'auto is in use';
order($_, '{"limit":2}') for 'tenant:used', 'api', 'auto';
order($_, '{"paused":true}') for 'tenant:paused', 'gpus';
order("drained/servers/$small", '{"limit":0}');
my @held = map { $node->begin(path('drained')) } 1 .. 3;
wait_for { $up->now == 3 } 15, 'three at the other server';

# none came
order('tenant:new', '{"limit":2}');
order('tenant:higher', '{"limit":9}');

$redis->all_beat(1);
# the last reply of the pool
order("drained/servers/$small", '{"limit":null}');
$redis->stop;
wait_for { scalar $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';

$up->release(2);
wait_for { 2 == grep { $_->done } @held } 15, 'two are served';
is $up->admitted((grep { !$_->done } @held), map { $node->begin(path('drained')) }
    1 .. 5), 3, 'the limit of a server is not that of the pool';

is admitted($_), 0, "$_: none" for 'tenant:paused', 'gpus';
is admitted($_), 2, "$_: the lower limit"
    for 'tenant:used', 'tenant:new', 'api', 'auto';
is admitted($_), 4, "$_: the configured limit"
    for map({ "tenant:$_" } qw(resumed resumed2 raised higher)), 'raised';

$redis->start;
$t->done;
