#!/usr/bin/perl

# Redis hangs, or is gone, while permits of a pool are out: "reject" refuses,
# "pass" lets the balancing method choose, and no server has more than its
# permits by Redis then or after it. All counts are compared once a lease.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 600);
my $redis = $t->redis;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

my @nodes = $clock->fleet(2, <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
dsem_lease 10m;
upstream strict {
    $servers
    dsem strict limit=1/server queue=10 timeout=9h;
}
upstream lax {
    $servers
    dsem lax limit=1/server queue=10 timeout=9h;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_read_timeout 9h;
    location /strict {
        dsem_on_error reject;
        proxy_set_header X-Sem strict;
        proxy_pass http://strict;
    }
    location /lax {
        dsem_on_error pass;
        proxy_set_header X-Sem lax;
        proxy_pass http://lax;
    }
}
EOF_CONF

sub now_at { return join ' ', map { $_->now($_[0]) } @up }

sub all_refused {
    my ($name) = @_;
    eventually {
        !grep { $_->get('/strict?t=1')->status != 503 } @nodes
    } "$name: refused at each node";
}

for my $outage (qw(frozen killed)) {
    my @held = map { $_->begin('/strict?hang=1') } @nodes;
    eventually { now_at('strict') eq '1 1' } "$outage: each server has one";
    my $waits = $nodes[0]->begin('/strict');
    eventually { $t->state->waiting('strict') == 1 } 'a request waits';

    my @before = map { scalar $_->grep_log(qr/available again/) } @nodes;
    $outage eq 'frozen' ? $redis->freeze : $redis->kill;
    # the clock of the nodes is fast while Redis does not reply
    wait_for { $clock->step(0.1); $waits->done } 15, 'an answer';
    is $waits->wait->status, 503, "$outage: the waiting request is refused";
    all_refused($outage);
    is now_at('strict'), '1 1', 'what runs goes on';
    for my $node (@nodes) {
        my $passed = $node->get('/lax?t=1');
        is join(' ', @{ $node->logged($passed) }{qw(status dsem_status)}),
            '200 DEGRADED', 'passed without a permit';
    }
    $outage eq 'frozen' ? $redis->thaw : $redis->start;

    # permits of requests that have run all the time are counted again
    eventually {
        !grep { $nodes[$_]->grep_log(qr/available again/) <= $before[$_] }
            0 .. $#nodes
    } "$outage: available again";
    eventually {
        $t->state->held('strict') == 2
    } 'both are counted again';
    $waits = $nodes[1]->begin('/strict');
    eventually { $t->state->waiting('strict') == 1 } 'a request waits again';
    $up[1]->release(1);
    is $waits->wait->status, 200, 'and is served';
    $_->release_all for @up;
    is $_->wait->status, 200, 'request ended' for @held;
}
is $_->peak('strict'), 1, 'limit of a server reached, not exceeded' for @up;

# once a lease counts are compared, also where no request waits: the fence is
# never reached
my @held = map { $_->begin('/strict?hang=1') } @nodes;
eventually { now_at('strict') eq '1 1' } 'each server has one';
for (1 .. 3) {
    $clock->step(300);
    $redis->all_beat(2);
}
$_->release_all for @up;
is $_->wait->status, 200, 'counts compared: request ended' for @held;

$t->done;
