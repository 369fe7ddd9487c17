#!/usr/bin/perl

# A node is reloaded with more worker processes in an outage, and meets a Redis
# that has lost its state for a moment: it does not know of the other node. When
# Redis is gone again its workers divide the share that its only one had.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $SHARE) = (8, 4);

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $up = $t->upstream;
my %proxy = map { $_ => $t->proxy($redis->address) } qw(a b);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 4s;
dsem_reuse off;
server {
    # each worker gets a part of the connections
    listen 127.0.0.1:%%PORT%% reuseport;
    location / {
        dsem api limit=%%LIMIT%%;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF
my ($node) = map {
    $t->node($_, $conf, REDIS => $proxy{$_}->address, LIMIT => $LIMIT)
} qw(a b);
$redis->all_beat(2) for 1, 2;

away($_) for qw(a b);
$redis->cmd('FLUSHALL');
$node->reload($conf =~ s/processes 1/processes 4/r);
wait_for { !$node->draining } 15, 'the end of the old worker';

$proxy{a}->refuse(0);
$redis->all_beat(4);
ok $redis->recovering, 'Redis knows one node, and recovers';
away('a');

# one request at each worker: the leases of all are over
my @all;
wait_for { crowd() >= $SHARE } 30, 'the share';
is crowd(), $SHARE, 'not more than the share';

$up->release_all;
$_->wait for @all;
$_->refuse(0) for values %proxy;

$t->done;

sub away {
    my ($name) = @_;
    $proxy{$name}->refuse;
    $proxy{$name}->cut;
}

# More requests than can run are decided; returns how many run.
sub crowd {
    my $before = $up->now;
    my @asked = map { $node->begin('/?hang=1') } 1 .. 60;
    push @all, @asked;
    wait_for { $up->now - $before + (grep { $_->done } @asked) >= @asked }
        15, 'each admitted or rejected';
    return $up->now;
}
