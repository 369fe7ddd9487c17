#!/usr/bin/perl

# The links to the replicas are cut, permits are granted, the master dies, and
# a replica without these permits replaces it. The first worker that the
# sentinels lead there finds all permits free, and waits until the other one
# has declared its own: the limit is never exceeded.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 120);

my $t = Dsem::Test->new(lease => $LEASE);
my $set = $t->sentinel;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_lease 120s;
location /waits {
    dsem api limit=4 queue=100 timeout=120s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a sentinel for one node, which leads it to the master through a proxy
my $old = $set->master;
my $way = $t->proxy($old->address);
my $guide = $set->watch('way', $way->address);
my $late = $t->node('late', $conf, SENTINELS => $guide->address,
    MASTER => 'way');
my $first = $t->node('first', $conf);

sub of { return Dsem::State->new($_[0])->figure('api', $_[1]) }

$_->get('/waits?t=1') for $first, $late;
wait_for {
    !grep { my $state = Dsem::State->new($_);
        $state->session_count != 2 || $state->exists('api') } $set->replicas
} 20, 'replication';

$_->cmd(qw(CONFIG SET masterauth wrong)) for $set->replicas;
$old->cmd(qw(CLIENT KILL TYPE replica));
my @long = map { $late->begin('/waits?hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'all permits out';
is of($old, 'held'), $LIMIT, 'master counts permits';
is of($_, 'held'), 0, 'replica counts none' for $set->replicas;

$way->freeze;
$old->kill;
my $new = wait_for {
    my $master = $set->master;
    $master != $old && $master;
} 90, 'a new master';
my @asked = map { $first->begin('/waits?hang=1') } 1 .. $LIMIT;
my $state = Dsem::State->new($new);
eventually { $state->recovering && $state->census_declared == 1 }
    'first node there, nothing granted';
is of($new, 'held'), 0, 'no permit of the late node known';

$way->retarget($new->address);
$way->cut;
$way->thaw;
eventually { of($new, 'held') == $LIMIT } 'late node declares';
eventually { !$state->recovering && of($new, 'waiting') == $LIMIT }
    'requests of the first node queued';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
$up->release($LIMIT);
is $_->wait->status, 200, 'running request served' for @long;
wait_for { $up->now == $LIMIT } 15, 'permits granted again';
$up->release_all;
is $_->wait->status, 200, 'queued request served' for @asked;
is $up->peak, $LIMIT, 'limit held to the end';

$t->done;
