#!/usr/bin/perl

# A worker that was busy reads the reply to a heartbeat of before a loss of state
# when its sibling has met the loss: the node counts one recovery.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 10);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $state = $t->state;

my $node = $t->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_lease 10s;
location / {
    dsem a limit=2;
    return 204;
}
location = /dsem/metrics { dsem_api; }
EOF_CONF

$redis->all_beat(2);
is recoveries(), 0, 'none at first';

# the reply to a heartbeat waits for a worker that stands still
my ($late) = $node->workers;
my ($session) = grep { /^n1:0:/ } $state->sessions;
$proxy->delay(0.4, 's2c');
my $before = $state->lease_ends->{$session};
wait_for { $state->lease_ends->{$session} > $before } 15, 'its heartbeat';
$node->freeze($late);

$redis->cmd('FLUSHALL');
wait_for { ($state->session_count // 0) == 1 } 15, 'its sibling has come';
$redis->beats(2, 'and has read the replies');

$node->thaw($late);
$proxy->delay(0, 's2c');
wait_for { $state->session_count == 2 } 15, 'both sessions';
$redis->all_beat(2) for 1, 2;
is recoveries(), 1, 'one recovery';

$t->done;

sub recoveries {
    my ($n) = $node->get('/dsem/metrics')->body
        =~ /^dsem_redis_recoveries_total (\d+)$/m;
    return $n;
}
