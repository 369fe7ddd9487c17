#!/usr/bin/perl

# Redis is lost right after a reload, while requests wait in the old worker,
# which has no permit. Redis has counted both workers: when the lease is over the
# old one serves those that wait in it, and the new one has a share of its own.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $SHARE) = (12, 4);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $conf = <<'EOF_CONF';
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
location / {
    dsem a limit=12 queue=80 timeout=100s;
    proxy_set_header X-Sem %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my ($stays, $node) = map { $t->node($_, $conf) } qw(stays reloaded);
$redis->all_beat(2);

my @others = map { $stays->begin('/?hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'all permits in use';
my @old = map { $node->begin('/?hang=1') } 1 .. $SHARE - 1;
wait_for { $t->state->waiting('a') == @old } 15, 'some wait';

$node->reload;
$redis->all_beat(3);
$redis->kill;
$up->release_all;
wait_for { $up->now == 0 } 15, 'those of the other node to end';

my @new = map { $node->begin('/?hang=1') } 1 .. $SHARE;
eventually { $up->now == @old + @new } 'requests of both workers run';
is scalar(grep { $_->done } @old, @new), 0, 'none refused';
$up->release_all;
is $_->wait->status, 200, 'answered' for @others, @old, @new;
is $up->peak($node->name), @old + @new, 'both shares never exceeded';
$redis->start;

$t->done;
