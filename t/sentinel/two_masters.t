#!/usr/bin/perl

# A master is cut off from its replica and from the sentinels, but not from one
# of two nodes. With "min-replicas-to-write" it refuses writes before the
# other node, at the new master, is granted permits: the limit holds although
# both servers are masters. The node follows when the sentinels reach it again.

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
my $up = $t->upstream(service => 0.050);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_redis_connect_timeout 500ms;
dsem_lease 3s;
dsem_on_error %%ON_ERROR%%;
dsem_status 503 error=500;
location /waits {
    dsem api limit=4 queue=1000 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %guide = map { $_ => $set->watch($_, $old->address) } qw(cut whole);
# the old master may refuse writes of both before the failover: the one that
# follows it goes on with its own permits, while its requests wait
my %on_error = (cut => 'reject', whole => 'local');
my %node = map { $_ => $t->node($_, $conf, MASTER => $_,
    SENTINELS => $guide{$_}->address, ON_ERROR => $on_error{$_})
    } qw(cut whole);
wait_for { Dsem::State->new($old)->session_count == 2 } 15, 'two sessions';
my %load = map { $_ => $t->load_start(urls => [ $node{$_}->url('/waits') ],
    clients => 8, seconds => 3600, keepalive => 1) } qw(cut whole);
wait_for { $up->peak == $LIMIT } 15, 'limit reached';

$link->freeze;
my $frozen = now;
wait_for { now > $frozen + $DOWN_AFTER } 15, 'a failover to begin';
$new->cmd(qw(REPLICAOF NO ONE));
$set->name_master($guide{whole}, 'whole', $new->address);
eventually { $node{cut}->grep_log(qr/ unavailable \(NOREPLICAS /) }
    'old master refuses writes';
my $state = Dsem::State->new($new);
eventually { $state->recovering } 'new master waits for the missing worker';
eventually { !$state->recovering } 'new master grants', $LEASE + 5;
my $served = $up->served;
wait_for { $up->served > $served + 60 } 15,
    'more requests served';
is $up->peak, $LIMIT, 'limit reached, never exceeded';

$set->name_master($guide{cut}, 'cut', $new->address);
eventually { $state->session_count == 2 } 'cut off node at the new master';
$_->stop for values %load;
my %result = map { $_ => $load{$_}->wait->{statuses} } keys %load;
is_deeply [ keys %{ $result{whole} } ], [ 200 ], 'other node: none rejected';
ok $result{cut}{500}, 'cut off node: requests rejected';
is $up->peak, $LIMIT, 'limit held to the end';

$t->done;
