#!/usr/bin/perl

# A node is reloaded with more worker processes while Redis is unavailable for
# longer than a lease, and again: its workers divide the share that its only one
# had.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $NODE) = (32, 16);

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
server {
    # each worker gets a part of the connections
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem a limit=32;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF
$t->node('other', $conf);
my $node = $t->node('reloaded', $conf);
$redis->all_beat(2);
$redis->kill;

my @all;

# more requests than can run, until all workers have their shares
sub crowd {
    my ($name) = @_;
    eventually {
        my $before = $up->now;
        my @asked = map { $node->begin('/?hang=1') } 1 .. 80;
        push @all, @asked;
        wait_for { $up->now - $before + (grep { $_->done } @asked) >= @asked }
            15, 'each admitted or rejected';
        $up->now >= $NODE;
    } $name;
}

for my $n (4, 8) {
    $node->reload($conf =~ s/processes 1/processes $n/r);
    crowd("share of $n workers");
    is $up->peak, $NODE, "$n workers: share never exceeded";
    $up->release_all;
    wait_for { $up->now == 0 } 15, 'all to end';
}
$redis->start;

$t->done;
