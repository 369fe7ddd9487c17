#!/usr/bin/perl

# Redis loses all of its state twice, and in between only a worker comes that
# was started since then. It does not end the recovery alone: another worker
# still runs a request with a permit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $state = $t->state;
my $up = $t->upstream;
my %proxy = map { $_ => $t->proxy($redis->address) } qw(a b);

my %node = map { $_ => $t->node($_, <<'EOF_CONF', REDIS => $proxy{$_}->address) } qw(a b);
worker_processes 1;
dsem_lease 4s;
location / {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# each has seen the other
$redis->all_beat(2);
my $runs = $node{b}->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a request with the permit';

$_->refuse, $_->cut for values %proxy;
$redis->cmd('FLUSHALL');
my ($old) = $node{a}->workers;
$node{a}->reload;
wait_for { !grep { $_ == $old } $node{a}->draining } 15, 'the end of the old worker';
my $waits = $node{a}->begin('/');
$proxy{a}->refuse(0);

sub alone {
    # that of the old worker, which is dead, has no epoch
    my ($entry, @more) = grep { $_->{epoch} } values %{ $state->entries };
    return $entry && !@more && $entry->{declared} == $entry->{epoch};
}

for my $loss (1, 2) {
    eventually { alone() }
        "the new worker alone, after loss $loss";
    ok $redis->recovering, 'Redis recovers';
    $redis->cmd('FLUSHALL') if $loss == 1;
}
$proxy{b}->refuse(0);
eventually { $state->waiting('api') == 1 && !$redis->recovering }
    'Redis has recovered, with both workers', 15;
is $state->counts('api'), '1 1', 'one holds a permit, one waits';
$up->release_all;
is $_->wait->status, 200, 'served' for $runs, $waits;
is $up->peak, 1, 'limit kept';
$t->done;
