#!/usr/bin/perl

# A dry run suspends no request, whatever Redis does: it is frozen, restarted,
# loses its state or is unreachable. Other requests of the same worker wait.
# DSEM_LONG=1: none takes 50 ms, on a machine that does nothing else.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
dsem_redis_timeout 2s;
dsem_reuse off;
dsem_lease 1h;
location / {
    dsem one limit=2 queue=10 timeout=10s;
    dsem two limit=2 queue=10 timeout=10s;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
location /enforced {
    dsem one limit=2 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $node = $t->node('n1', $conf, REDIS => $proxy->address);
my $other = $t->node('n2', $conf);

# the longest of so many requests, in seconds
sub longest {
    my ($n) = @_;
    my $longest = 0;
    for (1 .. $n) {
        my $request = $node->get('/?t=1');
        return 1e9 if $request->status != 200;
        $longest = $request->took if $request->took > $longest;
    }
    note sprintf 'longest of %d: %.1f ms', $n, 1000 * $longest;
    return $longest;
}

# below all timeouts, as other processes need the machine as well
my $AT_ONCE = $ENV{DSEM_LONG} ? 0.05 : 1;

# the node that is left knows of the other one
$redis->all_beat(2);
is $node->get('/enforced?t=1')->status, 200, 'redis available';
cmp_ok longest(20), '<', $AT_ONCE, 'available: no wait';

$proxy->freeze;
my $waits = $node->begin('/enforced?t=1');
cmp_ok longest(5), '<', $AT_ONCE, 'frozen: no wait';
ok !$waits->done, 'frozen: enforced request waits';
cmp_ok longest(45), '<', $AT_ONCE, 'frozen for long: no wait';
eventually { $node->grep_log(qr/unavailable \(/) } 'unavailable';
cmp_ok longest(20), '<', $AT_ONCE, 'unavailable: no wait';
$proxy->thaw;
$waits->wait;
eventually { $node->grep_log(qr/available again/) } 'available again';

# a session that stays away keeps the state in recovery
$other->kill;
$redis->cmd('FLUSHALL');
$redis->client_kill;
cmp_ok longest(50), '<', $AT_ONCE, 'state lost: no wait';
eventually { $node->grep_log(qr/lost its state, recovering/) } 'recovering';
$waits = $node->begin('/enforced?t=1');
cmp_ok longest(50), '<', $AT_ONCE, 'recovering: no wait';
ok !$waits->done, 'recovering: enforced request waits';
ok $redis->recovering, 'state still recovers';

my ($epoch) = $t->state->declared;
$proxy->refuse;
$proxy->cut;
cmp_ok longest(50), '<', $AT_ONCE, 'unreachable: no wait';
$proxy->refuse(0);
wait_for { ($t->state->declared)[0] > $epoch } 15, 'a new epoch';
$t->state->set_shard('recover_until', 0);

eventually { $node->get('/enforced?t=1')->status == 200 } 'service again';

$t->done;
