#!/usr/bin/perl

# A reply is late, and by the one before the semaphore is paused, or more is in
# use than its limit: what comes free goes back, and serves no request that
# waits here.

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
dsem_lease 60s;
location / {
    dsem $arg_name limit=2 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
for (['paused', '- 1'], ['lowered', '1 0']) {
    my ($name, $order) = @$_;
    my $begin = sub {
        my ($nonce, $hang) = @_;
        return $node->begin("/?hang=$hang&name=$name", 'X-Nonce' => $nonce);
    };

    my @runs;
    for my $n (1, 2) {
        push @runs, $begin->("$name $n", 1);
        wait_for { $up->now == $n } 15, "$n at the backend";
    }
    $state->order($name, $order);
    my @waits = $begin->("$name waits", 0);
    wait_for { $state->figure($name, 'waiting') == 1 } 15, 'one waits';

    $clock->stop;
    # comes behind its reply, and that of each heartbeat
    is $node->get("/?name=free$name")->status, 200, "$name: no reply awaited";
    $proxy->freeze('s2c');
    push @waits, $begin->("$name asks", 0);
    wait_for { $state->figure($name, 'waiting') == 2 } 15, 'another one';
    $clock->step(10);
    $up->release(1);
    is $runs[0]->wait->status, 200, "$name: one ends";
    $node->logged($runs[0]);

    $proxy->thaw('s2c');
    $clock->go;
    wait_for { $state->held($name) == 1 } 15, 'its permit is back';
    my @order = grep { /^$name / } $up->order;
    is_deeply \@order, ["$name 1", "$name 2"], "$name: nobody had it";

    $state->drop_orders;
    $up->release_all;
    is $_->wait->status, 200, "$name: served" for $runs[1], @waits;
}

$t->done;
