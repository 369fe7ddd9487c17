#!/usr/bin/perl

# A node lowers its limit with a reload, another one has the lower limit, too, and
# an old worker still has requests. Its limit is that of an older file: it does
# not log that another node asks for a lower one.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_reuse off;
dsem_lease 2s;
location / {
    dsem api limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $cut = $conf =~ s/limit=20/limit=10/r;

my $one = $t->node('one', $conf);
my @requests = map { $one->begin('/?hang=1') } 1 .. 4;
wait_for { $up->now == 4 } 15, 'requests at the backend';
$one->reload($cut);
wait_for { $one->draining && $t->state->session_count == 2 } 15,
    'an old worker, and a new one';
# the node that came last is the one that is named
my $two = $t->node('two', $cut);
wait_for { $t->state->session_count == 3 } 15, 'another node';

# each release is a sync of the old worker, whose reply has the limit
for my $left (3, 2, 1) {
    $up->release(1);
    wait_for { $t->state->held('api') == $left } 15, 'a release';
    $redis->all_beat(3);
}
is scalar($_->grep_log(qr/\[warn\].* dsem: limit of/)), 0, 'nothing logged'
    for $one, $two;

# a worker that is not old does
my $three = $t->node('three', $conf);
eventually {
    # the message is lost if the worker is not subscribed yet
    $three->get('/');
    $three->grep_log(qr/limit of "api" is 10 in force \(node two asks/);
} 'logged by a new worker';

$up->release_all;
is $_->wait->status, 200, 'request served' for @requests;

$t->done;
