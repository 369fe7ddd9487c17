#!/usr/bin/perl

# An endpoint keeps the connections of its clients over a failover. One worker
# learns of the new process, as that has no scripts, and begins the recovery. The
# other one learns of it by its next heartbeat, and declares, too.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 3600);
my $master = $t->redis;
my $replica = $t->redis(args => [
    '--replicaof', split /:/, $master->address ]);
my $up = $t->upstream;
my %to = map { $_ => $t->proxy($master->address) } qw(first late);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1h;
dsem_redis_timeout 60s;
location / {
    dsem api limit=3 queue=10 timeout=1h;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my %node = map { $_ => $t->node($_, $conf, REDIS => $to{$_}->address) }
    sort keys %to;
wait_for { $t->state->session_count == 2 } 15, 'two sessions';
$master->all_beat(2);
my @runs = map { $node{$_}->begin('/?hang=1') } sort keys %node;
wait_for { $up->now == 2 } 15, 'one permit each';
my @opened = map { $to{$_}->accepted } sort keys %to;

$replica->follows($master);
$to{late}->freeze;
$replica->cmd(qw(REPLICAOF NO ONE));
$replica->cmd(qw(SCRIPT FLUSH));
for my $proxy (values %to) {
    $proxy->retarget($replica->address);
    $proxy->swap;
}
$master->kill;
my $state = Dsem::State->new($replica);
wait_for { $state->census_declared == 1 } 15, 'the first one declares';
ok $state->recovering, 'the other one is missing';

$to{late}->thaw;
wait_for { !$state->recovering } 15, 'it declares';
push @runs, $node{first}->begin('/?hang=1');
eventually { $up->now == 3 } 'permits are granted';
# but for the subscriptions, which end
is_deeply [ map { $to{$_}->accepted } sort keys %to ],
    [ map { $_ + 1 } @opened ], 'the connections are those of before';
is scalar(map { $node{$_}->grep_log(qr/unavailable \(/) } keys %node), 0,
    'never unavailable';

push @runs, $node{late}->begin('/?hang=1');
eventually { $state->counts('api') eq '3 1' } 'all are counted';
is $up->peak, 3, 'the limit';
wait_for { $up->release_all; $_->done } 15, 'the end' for @runs;
is $_->status, 200, 'served' for @runs;

$t->done;
