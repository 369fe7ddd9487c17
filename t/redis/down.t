#!/usr/bin/perl

# Redis is unavailable when nginx starts. nginx starts, and requests are
# handled by dsem_on_error. When Redis becomes available, it is used without a
# reload. The log has one line per worker for the outage and one for the
# recovery, whatever the traffic.

use lib 't/lib';
use Dsem::Test;

my $CONNECT = 0.3;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 1s;
# pauses between attempts are an eighth of it
dsem_lease 2s;
dsem_status 503 error=500;
server {
    listen 127.0.0.1:%%PORT%%;
    location /pass {
        dsem api limit=2 queue=100;
        dsem_on_error pass;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /reject {
        dsem api limit=2 queue=100;
        dsem_on_error reject;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# refused connections, and connections without a reply

sub starts_without {
    my ($how, $node) = @_;
    my @first = map { ($node->begin('/pass'), $node->begin('/reject')) } 1 .. 4;
    for (@first) {
        $_->wait;
        cmp_ok $_->took, '<', $CONNECT + 1.5, "$how: ended in time";
    }
    is_deeply [ map { $_->status } @first ], [ (200, 500) x 4 ],
        "$how: handled by dsem_on_error";
    eventually { $node->grep_log(qr/unavailable \(/) == 2 }
        "$how: both unavailable";

    my @took;
    for (1 .. 20) {
        my $pass = $node->get('/pass');
        is $pass->status, 200, "$how: pass mode passes" if $_ == 1;
        my $reject = $node->get('/reject');
        is $reject->status, 500, "$how: reject mode refuses" if $_ == 1;
        push @took, $reject->took;
    }
    my ($median) = (sort { $a <=> $b } @took)[10];
    cmp_ok $median, '<', 0.1, "$how: handled at once";
    wait_for { $node->access_log == 48 };
    my %said;
    $said{ $_->{dsem_status} }++ for $node->access_log;
    is_deeply \%said, { DEGRADED => 24, ERROR => 24 }, "$how: statuses logged";
}

sub comes_back {
    my ($how, $node) = @_;
    eventually { $t->state->session_count == 2 }
        "$how: granted without a reload", 4;
    eventually { $node->grep_log(qr/available again/) == 2 }
        "$how: both available again";
    $up->reset;
    my $load = $t->load(urls => [ $node->url('/reject') ], clients => 20,
        requests => 60);
    is_deeply $load->{statuses}, { 200 => 60 }, "$how: request served again";
    is $up->peak, 2, "$how: limit applied";
}

sub lines {
    my ($how, $node) = @_;
    is scalar($node->grep_log(qr/\[error\].*dsem: redis/)), 2,
        "$how: one error per worker";
    is scalar($node->grep_log(qr/\[notice\].*dsem.*connected to redis/)), 2,
        "$how: first connection logged once";
    is scalar($node->grep_log(qr/\[notice\].*dsem.*available again/)), 2,
        "$how: recovery logged once";
    is scalar(grep { !/version/ }
        $node->grep_log(qr/\[(?:notice|warn)\].*dsem/)), 4,
        "$how: no other notice";
    $node->clear_logs;
}

$proxy->refuse;
my $node = $t->node('a', $conf, REDIS => $proxy->address);
starts_without('refused', $node);
$proxy->refuse(0);
comes_back('refused', $node);
lines('refused', $node);
$node->quit;

$proxy->freeze;
$node = $t->node('b', $conf, REDIS => $proxy->address);
starts_without('silent', $node);
$proxy->thaw;
comes_back('silent', $node);
lines('silent', $node);

# Redis fails while it is used: one line per worker, whatever the traffic

$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/\[error\].*unavailable \(/) == 2 }
    'gone: outage logged';
$t->load(urls => [ $node->url('/reject') ], clients => 4, requests => 50);
$proxy->refuse(0);
comes_back('gone', $node);
is scalar($node->grep_log(qr/\[error\].*dsem: redis/)), 2,
    'gone: one error per worker';
is scalar($node->grep_log(qr/\[notice\].*dsem.*available again/)), 2,
    'gone: recovery logged once';

$t->done;
