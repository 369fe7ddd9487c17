#!/usr/bin/perl

# A worker is killed when the former master is named again. Its successor brings
# the term that the node knows, so that the old state recovers.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 30);
my $up = $t->upstream;
my $former = $t->redis;
my $replica = $t->redis(
    args => ['--replicaof', split /:/, $former->address]);
my $to = $t->proxy($former->address);
my ($before, $after) = map { Dsem::State->new($_) } $former, $replica;

my $node = $t->node('a', <<'EOF_CONF', REDIS => $to->address);
worker_processes 1;
dsem_lease 30s;
location / { dsem api limit=4; proxy_pass http://%%UPSTREAM%%; }
EOF_CONF

is $node->get('/')->status, 200, 'passed';
wait_for { $after->session_count == 1 } 15, 'replication';
$replica->cmd(qw(REPLICAOF NO ONE));
$to->retarget($replica->address);
$to->cut;
wait_for { !$after->recovering
    && grep { $_->{declared} == 2 } values %{ $after->entries } } 15,
    'the new master';
ok !$before->recovering, 'former master: nothing lost';

$to->refuse(1);
$to->retarget($former->address);
$to->cut;
$node->kill_worker;
$to->refuse(0);
eventually { $before->recovering } 'former master recovers';
cmp_ok $before->shard('term'), '>', $after->shard('term'), 'higher term';

$t->done;
