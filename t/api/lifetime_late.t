#!/usr/bin/perl

# Figures of a large fleet take many answers of a distant Redis. A client that
# has waited for long enough gets older ones, and the new ones are read on: that
# keeps no worker that exits.

use lib 't/lib';
use Dsem::Test;

# read 64 at a time
my $NAMES = 1500;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_zone_size 16m;
dsem_redis_timeout 2s;
location / {
    dsem "name$arg_n" limit=4 queue=1 timeout=30s;
    empty_gif;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my $load = $t->load(clients => 20, requests => $NAMES,
    request => sub { $node->url("/?n=$_[0]") });
is_deeply $load->{statuses}, { 200 => $NAMES }, 'a semaphore for each name';

my ($worker) = $node->workers;
# ten times this, of a second each
$proxy->delay(1, 's2c');
is $node->get('/dsem/semaphores')->status, 200, 'answered';
$node->reload;
# the reading would take 18 s from here on
eventually { !kill 0, $worker } 'worker exits', 8;
$proxy->delay(0, 's2c');

$t->done;
