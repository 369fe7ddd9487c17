#!/usr/bin/perl

# A worker is stopped for longer than its lease and than dsem_redis_timeout,
# while it waits for a reply. The reply is there when the worker resumes: Redis
# was not unavailable, and no request is admitted by a local share while other
# workers hold all permits.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout 2s;
dsem_lease 1s;
location /waits {
    dsem api limit=4 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=1;
    empty_gif;
}
EOF_CONF

my $goes = $t->node('goes', $conf);
my $stands = $clock->node('stands', $conf, REDIS => $proxy->address);

sub waiting { $t->state->waiting('api') }

wait_for { $t->state->session_count == 2 } 15, 'both sessions open';
my @holds = map { $goes->begin('/waits?hang=1') } 1 .. 4;
eventually { $up->now == 4 } 'all permits on other node';
my @waits = map { $stands->begin('/waits?hang=1') } 1, 2;
eventually { waiting() == 2 } 'two requests queued';

# a reply is on its way when the worker is stopped; none is late before
$clock->stop;
is $stands->get('/other')->status, 200, 'no reply awaited';
$proxy->freeze('s2c');
push @waits, $stands->begin('/waits?hang=1');
eventually { waiting() == 3 } 'asking request stopped';
$stands->freeze;
$clock->go;
$proxy->thaw('s2c');
my $stopped = now;
wait_for { now > $stopped + 2.5 } 15, 'two leases';
$stands->thaw;
eventually { waiting() == 3 } 'requests queued again';
is $up->now, 4, 'no request admitted';
is scalar($stands->grep_log(qr/unavailable \(/)), 0, 'redis stays available';

$up->release_all;
is $_->wait->status, 200, 'request served' for @holds;
wait_for { $up->release_all; !grep { !$_->done } @waits } 15, 'the end';
is $up->peak, 4, 'limit reached, never exceeded';

$t->done;
