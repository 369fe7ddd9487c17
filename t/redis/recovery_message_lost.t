#!/usr/bin/perl

# The message that recovery has ended is lost: the worker asks Redis often
# enough that its requests do not wait for the end of the lease.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my %way = map { $_ => $t->proxy($redis->address) } qw(deaf late);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
location /waits {
    dsem api limit=4 queue=100 timeout=50s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %node = map { $_ => $t->node($_, $conf, REDIS => $way{$_}->address) }
    sort keys %way;

sub of { return $t->state->shard($_[0]) // 0 }

sub wait_for_recovery {
    wait_for { of('gen') && of('recover_until') > of('clock') } 15,
        'recovery';
    wait_for { $t->state->census_declared == 1 } 15, 'first node to declare';
}

wait_for { $t->state->session_count == 2 } 15, 'both sessions';
$redis->all_beat(2);

$way{late}->freeze;
$way{deaf}->swallow(match => 'recovered');
$redis->cmd('FLUSHALL');
# it finds the loss before a heartbeat does
my $request = $node{deaf}->begin('/waits?t=1');
wait_for_recovery();

$way{late}->cut;
$way{late}->thaw;
my $ended = now;
is $request->wait(40)->status, 200, 'request served';
note sprintf 'after %.2f s', now - $ended;
cmp_ok $request->took, '<', 30, 'not after a lease';
eventually { $way{deaf}->swallowed >= 1 } 'message was lost';
is $node{deaf}->logged($request)->{dsem_status}, 'PASSED', 'granted by Redis';

$t->done;
