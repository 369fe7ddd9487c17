#!/usr/bin/perl

# A master is cut off from its replica and from the sentinels, but not from one
# of two nodes, whose requests outlive the lease. They run on beside those that
# the new master grants a lease after its promotion: twice the limit, and no
# more. When the node follows, that is an overage, counted and logged.

use lib 't/lib';
use Dsem::Test;

# seconds; as in the recipe
my ($LAG, $DOWN_AFTER) = (2, 3);
my ($LIMIT, $LEASE) = (4, 3);

my $t = Dsem::Test->new(lease => $LEASE);
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $old = $set->master;
my $link = $t->proxy($old->address);
my $new = $t->redis(reconnect => 1,
    args => ['--replicaof', split /:/, $link->address]);
wait_for { $new->cmd('INFO', 'replication') =~ /link_status:up/ } 15,
    'replication';
$old->cmd(qw(CONFIG SET min-replicas-to-write 1),
    'min-replicas-max-lag', $LAG);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_redis_connect_timeout 500ms;
dsem_lease 3s;
dsem_on_error reject;
location / {
    dsem api limit=4 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %guide = map { $_ => $set->watch($_, $old->address) } qw(cut whole);
my %node = map { $_ => $t->node($_, $conf, MASTER => $_,
    SENTINELS => $guide{$_}->address) } qw(cut whole);
my $before = Dsem::State->new($old);
wait_for { $before->session_count == 2 } 15, 'two sessions';
my @long = map { $node{cut}->begin('/?hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'limit reached';

$link->freeze;
my $frozen = now;
wait_for { now > $frozen + $DOWN_AFTER } 15, 'a failover to begin';
$new->cmd(qw(REPLICAOF NO ONE));
$set->name_master($guide{whole}, 'whole', $new->address);
eventually { $node{cut}->grep_log(qr/ unavailable \(NOREPLICAS /) }
    'old master refuses writes';
my $state = Dsem::State->new($new);
eventually { $node{whole}->grep_log(qr/available again/) } 'new master used';
ok $state->held('api') == $LIMIT || $state->recovering,
    'it grants nothing beside the missing worker';
my @other = map { $node{whole}->begin('/?hang=1') } 1 .. $LIMIT;
eventually { $up->now == 2 * $LIMIT } 'new master grants', $LEASE + 5;
my @late = map { $node{$_}->begin('/') } qw(cut whole);

$set->name_master($guide{cut}, 'cut', $new->address);
# the cause: its lease, or a state that was lost with the old master
eventually { $node{cut}->grep_log(
    qr/overage of 4 permits of "api" \(/) == 1 } 'overage logged';
eventually { $state->held('api') == 2 * $LIMIT } 'all of them counted';
$up->release_all;
is $_->wait->status, 200, 'request served' for @long, @other;
$_->wait for @late;
is $up->peak, 2 * $LIMIT, 'never more than that';

$t->done;
