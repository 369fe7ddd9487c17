#!/usr/bin/perl

# Redis has the state of another layout. While that is in use it is not touched:
# Redis is unavailable, and the log says why. A lease and a heartbeat after its
# wall clock has last moved, the worker begins its own state.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test qw(eventually);
use Time::HiRes qw(time);

my $t = Dsem::Test->new(lease => 1);
my $up = $t->upstream;
my $redis = $t->redis;
my ($shard) = ($t->state->shard_keys)[1];

# the clock of the other layout moves: its workers are there
sub moves {
    return $redis->cmd('HSET', $shard, '.',
        sprintf '4 77 5 %.0f and more', 1000 * time);
}

moves();
my $node = $t->node('new', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
location / {
    dsem api limit=1;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub logged { return scalar $node->grep_log($_[0]) }
sub last_status { return (map { $_->{dsem_status} } $node->access_log)[-1] // '' }

eventually {
    moves();
    logged(qr/\[error\].*unavailable \(keys in use by nginx with another /);
} 'the cause is logged';
moves();
is $node->get('/')->status, 200, 'request passed';
eventually { last_status() eq 'DEGRADED' } 'without redis';
like $redis->cmd('HGET', $shard, '.'), qr/^4 77 5 /, 'state not touched';
is $t->state->session_count, 0, 'no session';

eventually { logged(qr/\[notice\].*available again/) == 1 }
    'its own state when the other is not in use';
like $redis->cmd('HGET', $shard, '.'), qr/^3 /, 'layout of this version';
is $node->get('/')->status, 200, 'request served';
eventually { last_status() eq 'PASSED' } 'with a permit';

$t->done;
