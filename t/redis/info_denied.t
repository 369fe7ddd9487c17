#!/usr/bin/perl

# A user that may not call INFO, as with managed services, nor SCRIPT EXISTS:
# everything works, and one warning per worker tells that a failover may not be
# noticed.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test qw(wait_for eventually);

my $t = Dsem::Test->new;
my $up = $t->upstream;
my $redis = $t->redis;
$redis->cmd(qw(ACL SETUSER), $redis->user,
    qw(-info -script +script|load));

my $node = $t->node('single', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=1 queue=10 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub logged { return scalar $node->grep_log($_[0]) }

my $first = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my $second = $node->begin('/?hang=1');
wait_for { $t->state->waiting('api') == 1 } 15, 'one waits';
is logged(qr/\[warn\].*redis does not tell its run id/), 1, 'warned';

# a new connection of the same worker
$redis->client_kill;
eventually { $t->state->shard('gen') && logged(qr/connection to redis.*lost/) }
    'connection lost';
eventually { ($t->state->declared)[0] > 1 } 'declared again';
is logged(qr/\[warn\].*redis does not tell its run id/), 1, 'warned once';
is logged(qr/recovering/), 0, 'no recovery';
is logged(qr/unavailable \(/), 0, 'available';

$up->release(1);
is $first->wait->status, 200, 'first request served';
wait_for { $up->now == 1 } 15, 'the next at the backend';
$up->release(1);
is $second->wait->status, 200, 'waiting request served';
is $up->peak, 1, 'limit reached, never exceeded';

# the server itself tells it again
$redis->cmd(qw(ACL SETUSER), $redis->user, '+info');
$redis->client_kill;
eventually { ($t->state->declared)[0] > 2 } 'declared once more';
ok $t->state->shard('run'), 'run id known';
is logged(qr/recovering/), 0, 'that is no failover';

$t->done;
