#!/usr/bin/perl

# An empty Redis without any session's memory of a generation is a first start:
# nothing has to be recovered, so no request waits for a recovery. A node that
# joins later causes no pause, and a fleet that reconnects to the same Redis
# causes none.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 5;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
add_header X-Status $dsem_status;
location /first {
    dsem api limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub no_pause {
    my ($name, $node) = @_;
    my $request = $node->get('/first?t=1');
    is $request->status, 200, "$name: request served";
    is $request->header('X-Status'), 'PASSED', "$name: served by a grant";
    cmp_ok $request->took, '<', $LEASE / 4, "$name: no pause";
    is $t->state->shard('recover_until'), 0, "$name: no recovery";
}

my $one = $t->node('one', $conf);
no_pause('first node', $one);
my $generation = $t->state->shard('gen');
no_pause('second node', $t->node('two', $conf));
$redis->client_kill;
no_pause('reconnected', $one);
$one->reload;
no_pause('reloaded', $one);
is $t->state->shard('gen'), $generation, 'same generation';

$t->done;
