#!/usr/bin/perl

# A node reloads while Redis recovers: its old worker leaves after it has
# declared, and the recovery does not wait for it.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
location /waits {
    dsem api limit=4 queue=100 timeout=50s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $reloads = $t->node('reloads', $conf);
my $late = $t->node('late', $conf, REDIS => $proxy->address);

sub of { return $t->state->shard($_[0]) // 0 }

wait_for { $t->state->session_count == 2 } 15, 'both sessions';
$redis->all_beat(2);

my $long = $late->begin('/waits?hang=1');
wait_for { $up->now == 1 } 15, 'long request';
$proxy->freeze;
$redis->cmd('FLUSHALL');
wait_for { $t->state->census_declared == 1 } 15, 'first node to declare';

my ($old) = $reloads->workers;
$reloads->reload;
eventually { !grep { $_ == $old } $reloads->workers } 'old worker left';
my $request = $reloads->begin('/waits?t=1');
cmp_ok of('recover_until') - of('clock'), '>', 20000, 'recovery goes on';

$proxy->cut;
$proxy->thaw;
is $request->wait(40)->status, 200, 'request served';
cmp_ok $request->took, '<', 30, 'not after a lease';
eventually { $t->state->held('api') == 1 } 'long request counted';
$up->release_all;
is $long->wait->status, 200, 'long request served';

$t->done;
