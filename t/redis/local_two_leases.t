#!/usr/bin/perl

# Two nodes with different leases, as while a reload changes "dsem_lease", and an
# outage of Redis: the worker with the short one admits nothing by its share
# before the long one is over, as the other may still use all that it had. So
# does a worker that is started meanwhile.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my ($long, $short) = map { $t->node($_->[0], <<'EOF_CONF',
worker_processes 1;
dsem_redis_connect_timeout 600ms;
dsem_redis_timeout 600ms;
dsem_lease %%LEASE%%;
location /local {
    dsem api limit=4 queue=60 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
    REDIS => $proxy->address, LEASE => $_->[1]) } [ long => '60s' ],
    [ short => '1s' ];

is $_->get('/local')->status, 200, 'node in use' for $long, $short;
$redis->all_beat(2);
$redis->all_beat(2);
my @running = map { $long->begin('/local?hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'all permits in one worker';

# the lease of the short one, and as much again
sub over {
    my $end = now + 2;
    wait_for { now > $end } 15, 'the short lease';
}

$proxy->refuse;
$proxy->cut;
my $waits = $short->begin('/local?hang=1');
wait_for { $_->grep_log(qr/redis \S+ unavailable/) } 15, 'an outage'
    for $long, $short;
over();
is $up->now, $LIMIT, 'not above the limit';
ok !$waits->done, 'request waits';

$short->kill_worker;
wait_for { $waits->done } 15, 'worker killed';
$waits = $short->begin('/local?hang=1');
over();
is $up->now, $LIMIT, 'nor a new worker';
ok !$waits->done, 'request waits for it';

# what the long one has may serve it still
push @running, $long->begin('/local?hang=1');
$up->release(1);
eventually { $up->now == $LIMIT && $up->served == 3 } 'own permit handed over';

$proxy->refuse(0);
$up->release(1);
wait_for { $waits->done || $up->started == 2 + 6 } 30, 'the other node';
$up->release_all;
is $_->wait->status, 200, 'served' for @running, $waits;
is $up->peak, $LIMIT, 'limit never exceeded';

$t->done;
