#!/usr/bin/perl

# A worker's connection ends before the reply that names its dropped request: the
# worker declares the request, and it is not queued again.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_log_level info;
location / {
    dsem api limit=1 queue=4 timeout=60s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $one = $t->node('n1', $conf, REDIS => $proxy->address);
my $two = $t->node('n2', $conf);

my $holder = $two->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my @heavy;
for my $n (1 .. 4) {
    push @heavy, $one->begin("/?k=heavy&n=$n");
    wait_for { $t->state->waiting('api') == $n } 15, 'in the queue';
}

# the reply that has its number, of a sync that the message or a check causes
$proxy->hold('\*\d+\r\n\$\d+\r\nn1:(?s:.*)\r\n:-\d+\r\n\z');
my $light = $two->begin('/?k=light');
wait_for { $redis->cmd('HLEN', $t->state->named_key('api')) } 15, 'reply sent';
ok !$heavy[3]->done, 'reply held';
is $t->state->waiting('api'), 4, 'dropped';

my $connected = $proxy->accepted;
$proxy->cut;
$proxy->thaw;
wait_for { $proxy->accepted > $connected + 1 } 15, 'connected again';
is $heavy[3]->wait->status, 503, 'rejected';
is $one->logged($heavy[3])->{dsem_status}, 'REJECTED', 'for want of a place';
is $t->state->waiting('api'), 4, 'queue not longer than its bound';
ok !$_->done, 'others wait' for @heavy[0 .. 2], $light;

$up->release_all;
is $_->wait->status, 200, 'all others served'
    for $holder, @heavy[0 .. 2], $light;
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
