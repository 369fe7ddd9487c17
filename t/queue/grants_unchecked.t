#!/usr/bin/perl

# More requests wait in a worker than one check compares, and others, of a better
# class, are granted permits by another node all the time: their messages come
# while a check is on its way, and no count is found to differ.

use lib 't/lib';
use Dsem::Test;

my $CHECKS = $ENV{DSEM_LONG} ? 60 : 6;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.005);
my $proxy = $t->proxy($redis->address);
$proxy->delay(0.03, 's2c');

my $conf = <<'EOF_CONF';
worker_processes 1;
worker_connections 2048;
dsem_log_level info;
location / {
    dsem api limit=4 queue=600 timeout=60s priority=$arg_class;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $far = $t->node('far', $conf, REDIS => $proxy->address);
my $near = $t->node('near', $conf);
$redis->all_beat(2);

my @holders = map { $near->begin('/?class=0&hang=1') } 1 .. 4;
wait_for { $up->now == 4 } 15, 'the limit reached';
my @last = map { $far->begin('/?class=7') } 1 .. 300;
wait_for { $t->state->waiting('api') == 300 } 15, 'more than one check has';

my $load = $t->load_start(
    urls => [ map { $_->url('/?class=0&hang=1') } $far, $near ],
    clients => 32, seconds => 3600, timeout => 70);
wait_for { $t->state->waiting('api') >= 308 } 15, 'others wait before them';

# As many of class 0 wait as there are permits on their way, and those that
# come free now: no other is granted one.
sub pass_on { $up->release(4) if $t->state->waiting('api') >= 308 }

my $served = $up->served;
# a worker checks its counts each 0.8 s, and has a beat each second
for (1 .. $CHECKS) {
    my $before = $t->state->lease_ends;
    wait_for {
        pass_on();
        my $ends = $t->state->lease_ends;
        !grep { $ends->{$_} <= $before->{$_} } keys %$before;
    } 15, 'a heartbeat of each';
}
wait_for { pass_on(); $up->served > $served + 100 } 60, 'permits changed hands';
ok !(grep { $_->done } @last), 'while the others wait';
is scalar $_->grep_log(qr/counts differ/), 0, 'counts agree' for $far, $near;

$load->stop;
wait_for { $up->release_all; $load->ready(0) } 60, 'the end of the load';
is_deeply [ keys %{ $load->wait->{statuses} } ], [200], 'all served';
is $_->wait->status, 200, 'served' for @holders;
is_deeply [ grep { $_->wait->status != 200 } @last ], [], 'the others, too';
is $up->peak, 4, 'limit reached, never exceeded';

$t->done;
