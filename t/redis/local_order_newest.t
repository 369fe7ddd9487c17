#!/usr/bin/perl

# A lower order stays in force while Redis is unavailable, also if the last reply
# was to a worker from before a reload that has no signal to exit yet: that its
# own limit is in force says nothing of the new one.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 4s;
dsem_reuse off;
add_header X-Dsem $dsem_status always;
location / {
    dsem tenant:$arg_n limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
location /literal {
    dsem api limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $node = $t->node('a', $conf);
my @paths = ('/?n=a', '/literal?n=a');
my $master = $node->pid;

$t->state->order($_, '4 0') for 'tenant:a', 'api';

# The master stops between the start of a new worker and its signal to the old
# one, 0.1 s later. A reload is repeated where the test was too late for that.
my ($old, $new, @held);
wait_for {
    ($old) = $node->workers;
    @held = map { $node->begin("$_&hang=1") } @paths;
    wait_for { $up->now == 2 } 15, 'requests of the old worker';
    $node->write_conf($conf =~ s/limit=4/limit=20/gr);
    $node->signal('HUP');
    wait_for { ($new) = grep { $_ != $old } $node->workers } 15, 'a new worker';
    $node->freeze($master);
    granted($_, $new, $old) for @paths;
    serves($old, $new) or do {
        $up->release_all;
        $_->wait for @held;
        $node->thaw($master);
        $node->reload($conf);
        wait_for { !$node->draining } 15, 'the old worker has ended';
        0;
    };
} 60, 'a signal that is late';

$up->release_all;
is $_->wait->status, 200, 'served by the old worker' for @held;
granted('/?n=after', $old, $new);    # its reply comes after those to the releases
$node->thaw($master);
wait_for { !grep { $_ == $old } $node->workers, $node->draining } 15,
    'the old worker has ended';
$redis->all_beat(1) for 1, 2;

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { $node->get('/?n=other')->status == 200 } 15, 'the lease is over';
is admitted('/?n=a'), 4, 'a name from variables';
is admitted('/literal?n=a'), 4, 'a literal name';
$redis->start;

$t->done;

# Redis has granted a request of this worker, while the other one stands still.
sub granted {
    my ($path, $pid, $other) = @_;
    $node->freeze($other);
    wait_for { $node->get($path)->header('X-Dsem') eq 'PASSED' } 15,
        "$path granted";
    $node->thaw($other);
}

# This worker has no signal to exit, the other one stands still.
sub serves {
    my ($pid, $other) = @_;
    $node->freeze($other);
    my $request = $node->begin('/?n=before');
    wait_for { $request->done || $node->draining } 15, 'a reply, or a signal';
    $node->thaw($other);
    $request->wait;
    return !$node->draining;
}

# How many of five requests are.
sub admitted {
    my ($path) = @_;
    return $up->admitted(map { $node->begin("$path&hang=1") } 1 .. 5);
}
