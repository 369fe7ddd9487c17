#!/usr/bin/perl

# A worker has given all its connections to clients when its connections to
# Redis are lost. It reconnects as soon as connections are free, without a
# reload. Waiting requests are refused, running requests are served, and
# nothing is held afterwards.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
$t->expect_log(qr/worker_connections are not enough/);

my $conf = <<'EOF_CONF';
worker_processes 1;
worker_connections 64;
dsem_lease 1s;
dsem_max_waiting 60;
dsem_on_error reject;
dsem_status 503 error=500;
location /waits {
    dsem api limit=2 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('a', $conf, REDIS => $proxy->address);
my ($worker) = $node->workers;

sub state { return $t->state->figure('api', $_[0]) }
sub sessions { return $t->state->session_count }

sub lacking {
    my ($whom) = @_;
    return scalar($node->grep_log(qr/connections are not enough$whom/));
}

my @running = map { $node->begin('/waits?hang=1') } 1, 2;
eventually { $up->now == 2 } 'all permits out';
my @waiting = map { $node->begin('/waits?t=1') } 1 .. 50;
eventually { state('waiting') == 50 } 'fifty requests queued';

# slow clients take the free connections, and then those of Redis

sub slow { return $node->raw->send('GET /waits') }

my @slow = map { slow() } 1 .. 20;
eventually { lacking(qr/(?!.*dsem redis)/) } 'no connection left';
$proxy->refuse;
$proxy->reset;
wait_for { push @slow, slow(); lacking(qr/.*dsem redis/) } 15,
    'none to Redis either';
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
$proxy->refuse(0);
is scalar(grep { $_->wait->status == 500 } @waiting), 50,
    'waiting requests refused';
is $up->now, 2, 'running requests kept';

# the closed connections are enough for Redis

eventually { $node->grep_log(qr/available again/) == 1 }
    'redis available again';
eventually { state('held') == 2 } 'permits declared';
is scalar($node->grep_log(qr/unavailable \(/)), 1, 'unavailable once';
$_->close for @slow;
my @next = map { $node->begin('/waits?t=1') } 1 .. 10;
eventually { state('waiting') == 10 } 'other requests queued again';
$up->release_all;
is $_->wait->status, 200, 'running requests served' for @running;
is scalar(grep { $_->wait->status == 200 } @next), 10, 'other requests served';
is $up->peak, 2, 'limit reached, never exceeded';
is sessions(), 1, 'one session';
is_deeply [ $node->workers ], [$worker], 'same worker';

$t->done;
