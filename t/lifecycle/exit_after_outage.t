#!/usr/bin/perl

# A worker exits, with a long request, and Redis is lost meanwhile for longer
# than an exiting worker waits for it. The wait begins when the request ends:
# Redis is available again within it, and the permit is released at once.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1m;
dsem_redis_connect_timeout 500ms;
location / {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $leaves = $clock->node('leaves', $conf, REDIS => $proxy->address);
my $stays = $t->node('stays', $conf);

my $request = $leaves->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the permit out';
my $waits = $stays->begin('/?t=1');
wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
$leaves->signal('QUIT');
wait_for { !$leaves->workers } 15, 'the worker exiting';

$proxy->refuse(1);
$proxy->cut;
wait_for { $leaves->grep_log(qr/dsem: redis .* unavailable/) } 15,
    'Redis unavailable';
my $stepped = now;
$clock->step(3);
# attempts to connect are more frequent: its timers have expired
wait_for { now > $stepped + 0.8 } 15, 'a turn of the worker';
ok $leaves->alive, 'worker drains';

# its wait lasts two seconds, and it connects again within one
$clock->stop;
is $up->release(1), 1, 'long request ends';
is $request->wait->status, 200, 'long request served';
$proxy->refuse(0);
$clock->step(1);
eventually { $waits->done } 'permit handed over', 10;
$clock->go;
is $waits->wait->status, 200, 'waiting request served';
eventually { !$leaves->alive } 'worker gone';
is scalar(grep { /^leaves:/ } $t->state->sessions), 0, 'session removed';
is_deeply [ $leaves->grep_log(qr/exiting without/) ], [],
    'no exit without a session logged';
is $up->peak, 1, 'limit never exceeded';

$t->done;
