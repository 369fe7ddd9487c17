#!/usr/bin/perl

# A connect or a command has had no reply in time: Redis is unavailable.
# Waiting and asking requests are refused at once. No request waits for longer
# than the timeout. The log has one line per worker each way, whatever the
# traffic.

use warnings;
use strict;

use List::Util qw(max sum);
use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

# a bit longer than the time from the beginning to a check that is due each
# second, so that the next check is far away when they are over
my ($CONNECT, $TIMEOUT) = (1.1, 1.1);
my ($NODES, $WORKERS) = (2, 4);
# how much later than the timeout requests were refused
my @later;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);
my $proxy = $t->proxy($redis->address);

my @fleet = $t->fleet($NODES, <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 1100ms;
    dsem_redis_timeout 1100ms;
    dsem_node %%NODE%%;
    dsem_status 503 error=500;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /rejected {
            dsem api limit=3 queue=100 timeout=20s;
            dsem_on_error reject;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub lines {
    my ($re) = @_;
    return map { $_->grep_log($re) } @fleet;
}

sub sessions { return $t->state->session_count }
sub waiting { return $t->state->waiting('api') }

sub away {
    my ($name, $timeout, $go, $come) = @_;
    wait_for { sessions() >= $WORKERS } 15, 'all workers connected';
    my @running = map { $fleet[0]->begin('/rejected?hang=1') } 1 .. 3;
    wait_for { $up->now == 3 } 15, 'all permits out';
    my @waiting = map { $_->begin('/rejected') } @fleet;
    wait_for { waiting() == @waiting } 15, 'requests queued';
    $_->clear_logs for @fleet;

    $go->();
    my $gone = now;
    # of all workers
    my @asked = map { my $n = $_; map { $_->begin("/rejected?n=$n") } @fleet }
        1 .. 6;
    # a heartbeat may go by until a connection is missed
    for (@waiting) {
        is $_->wait->status, 500, "$name: waiting requests refused";
        cmp_ok took($gone), '<', 1 + $timeout + 1.5, "$name: refused at once";
    }
    for (@asked) {
        is $_->wait->status, 500, "$name: asking requests refused";
        cmp_ok $_->took, '<', $timeout + 1, "$name: refused in time";
    }
    push @later, map { max 0, took($gone + $timeout, $gone + $_->latency) }
        @asked;
    my $most = max map { $_->took } @asked;
    note sprintf "$name: %.2f s at most", $most;
    eventually { lines(qr/unavailable \(/) == $WORKERS }
        "$name: all workers unavailable";
    my $load = $t->load(clients => 20, requests => 100,
        urls => [ map { $_->url('/rejected') } @fleet ]);
    is_deeply [ keys %{ $load->{statuses} } ], [500],
        "$name: new requests refused";
    is $up->now, 3, "$name: running requests kept";

    $come->();
    eventually { lines(qr/available again/) == $WORKERS }
        "$name: all available again";
    $up->release_all;
    is $_->wait->status, 200, "$name: running requests served" for @running;
    is $fleet[0]->get('/rejected')->status, 200, "$name: request served again";
    is scalar(lines(qr/\[error\].*dsem: redis/)), $WORKERS,
        "$name: one error per worker";
    is scalar(lines(qr/\[notice\].*dsem.*available again/)), $WORKERS,
        "$name: one notice per worker";
    is scalar(lines(qr/\[(?:warn|error)\].*dsem: /)), $WORKERS,
        "$name: no other error";
}

away('connect timeout', $CONNECT, sub { $proxy->freeze; $redis->client_kill;
    $proxy->cut }, sub { $proxy->thaw });
away('refused', $CONNECT, sub { $proxy->refuse; $proxy->cut },
    sub { $proxy->refuse(0) });
away('command timeout', $TIMEOUT, sub { $redis->freeze },
    sub { $redis->thaw });
away('silence', $TIMEOUT, sub { $proxy->freeze('s2c') },
    sub { $proxy->thaw });

# by the next check it would be most of a second
my $mean = sum(@later) / @later;
note sprintf '%.3f s later on average', $mean;
cmp_ok $mean, '<', 0.4, 'refused at once on average';

$t->done;
