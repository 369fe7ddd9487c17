#!/usr/bin/perl

# The replication link is cut, permits are granted, the master dies, and the
# replica without these permits replaces it. The workers do not reconnect at
# the same time. The first worker finds all permits free, and waits until the
# others have declared theirs. Without that window, removed in the second run,
# the limit is exceeded.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 30);

my $t = Dsem::Test->new(lease => $LEASE);
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 30s;
location /waits {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub of { return Dsem::State->new($_[0])->figure('api', $_[1]) }

sub run_id {
    my ($redis) = @_;
    my ($id) = $redis->cmd('INFO', 'server') =~ /^run_id:(\w+)/m;
    return $id;
}

sub failover {
    my ($how, $then) = @_;
    my $master = $t->redis;
    my $link = $t->proxy($master->address);
    my $replica = $t->redis(args => [
        '--replicaof', split /:/, $link->address ]);
    my %to = map { $_ => $t->proxy($master->address) } qw(first late);
    my %node = map { $_ => $t->node("$_-$how", $conf,
        REDIS => $to{$_}->address) } qw(first late);
    $up->reset;
    $_->get('/waits?t=1') for values %node;
    # the permits are back, and the replica knows it
    wait_for { !Dsem::State->new($master)->exists('api') } 20, 'no permit out';
    $replica->follows($master);

    $link->freeze;
    my @long = map { $node{late}->begin('/waits?hang=1') } 1 .. $LIMIT;
    wait_for { $up->now == $LIMIT } 15, 'all permits out';
    is of($master, 'held'), $LIMIT, "$how: master counts permits";
    is of($replica, 'held'), 0, "$how: replica counts none";

    $to{late}->freeze;
    $master->kill;
    $replica->cmd(qw(REPLICAOF NO ONE));
    $then->($replica);
    $to{$_}->retarget($replica->address) for keys %to;
    my @asked = map { $node{first}->begin('/waits?hang=1') } 1 .. $LIMIT;
    my $calls = $replica->calls->{evalsha} // 0;
    # it asks and is not granted; or has all permits once more
    eventually {
        $how eq 'window' ? ($replica->calls->{evalsha} // 0) > $calls + 4
            : of($replica, 'held') == $LIMIT;
    } "$how: first node reconnected";
    my $granted = of($replica, 'held');

    $to{late}->cut;
    $to{late}->thaw;
    eventually { of($replica, 'held') == $LIMIT + $granted }
        "$how: late node declares";
    eventually { of($replica, 'held') + of($replica, 'waiting')
        == 2 * $LIMIT } "$how: all permits counted";
    # a permit is counted before its request is at the backend
    wait_for { $up->now >= $LIMIT + $granted } 15, 'those with a permit';
    my $peak = $up->peak;
    wait_for { $up->release_all; $_->done } 15, 'the end' for @asked, @long;
    is_deeply [ map { $_->status } @asked, @long ], [ (200) x (2 * $LIMIT) ],
        "$how: every request served";
    $_->quit for values %node;
    return $peak;
}

is failover('window', sub { }), $LIMIT, 'limit reached, never exceeded';

# as if the new master had written its state itself
cmp_ok failover('none', sub {
    Dsem::State->new($_[0])->set_shard(run => run_id($_[0]));
}), '>', $LIMIT, 'no window: limit exceeded';

$t->done;
