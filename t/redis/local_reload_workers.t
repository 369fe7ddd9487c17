#!/usr/bin/perl

# A node with two workers is reloaded while Redis is unavailable for longer than
# a lease. What its old workers have in use is left out by the new ones, each
# time by another one of them: all together have the share of the node.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $NODE) = (9, 6);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $conf = <<'EOF_CONF';
worker_processes WORKERS;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
server {
    # each worker gets about half of the connections
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem a limit=9;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF
$t->node('other', $conf =~ s/WORKERS/1/r);
my $node = $t->node('reloaded', $conf =~ s/WORKERS/2/r);
$redis->all_beat(3);
$redis->kill;

my @all;

# More requests than can run, all others are rejected; again where the worker
# did not know yet that some had ended.
sub crowd {
    my ($name) = @_;
    eventually {
        my $before = $up->now;
        my @asked = map { $node->begin('/?hang=1') } 1 .. 40;
        push @all, @asked;
        wait_for { $up->now - $before + (grep { $_->done } @asked) >= @asked }
            15, 'each admitted or rejected';
        $up->now == $NODE;
    } $name;
}

sub ends {
    my ($n) = @_;
    my $left = $up->now - $n;
    $up->release($n);
    wait_for { $up->now == $left } 15, 'some to end';
}

wait_for { $node->get('/?t=1')->status == 200 } 15, 'the lease to end';
crowd('share of both workers');
ends(1);
$node->reload;
crowd('one beside five old ones');
ends(2);
crowd('three beside three old ones');
is $up->peak, $NODE, 'share never exceeded';
$up->release_all;
wait_for { $up->now == 0 } 15, 'all to end';
wait_for { !$node->draining } 15, 'the old workers to end';
crowd('share of the new workers');
$up->release_all;
$redis->start;

$t->done;
