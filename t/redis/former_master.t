#!/usr/bin/perl

# A replica takes over, and later the former master, which has been no replica
# meanwhile, is named again: its process and its state are those of before. The
# first worker that returns brings the term of the other master, so that nothing
# is granted until the other worker has declared its permits. Where the state
# has lost its term, in the second run, the limit is exceeded.

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

sub move {
    my ($to, @proxies) = @_;
    $_->retarget($to->address) for @proxies;
    $_->cut for @proxies;
}

sub named_again {
    my ($how) = @_;
    my $former = $t->redis;
    my $replica = $t->redis(
        args => ['--replicaof', split /:/, $former->address]);
    my %to = map { $_ => $t->proxy($former->address) } qw(first late);
    my %node = map { $_ => $t->node("$_-$how", $conf,
        REDIS => $to{$_}->address) } qw(first late);
    $up->reset;
    $_->get('/waits?t=1') for values %node;
    my ($before, $after) = map { Dsem::State->new($_) } $former, $replica;
    # the permits are back, and the replica knows it
    wait_for { !$before->exists('api') } 20, 'no permit out';
    $replica->follows($former);

    $replica->cmd(qw(REPLICAOF NO ONE));
    $before->cmd('HDEL', $before->key, 'term') if $how eq 'lost';
    move($replica, values %to);
    wait_for { !$after->recovering
        && !grep { $_->{declared} < 2 } values %{ $after->entries } } 20,
        'both at the new master';
    my @long = map { $node{late}->begin('/waits?hang=1') } 1 .. $LIMIT;
    wait_for { $up->now == $LIMIT } 15, 'all permits out';
    is $after->figure('api', 'held'), $LIMIT, "$how: new master counts permits";
    is $before->figure('api', 'held'), 0, "$how: former master counts none";

    move($former, $to{first});
    my @asked = map { $node{first}->begin('/waits?hang=1') } 1 .. $LIMIT;
    my $calls = $former->calls->{evalsha} // 0;
    # it asks and is not granted; or has all permits once more
    eventually {
        $how eq 'kept' ? ($former->calls->{evalsha} // 0) > $calls + 4
            : $before->figure('api', 'held') == $LIMIT;
    } "$how: first node is back";
    my $granted = $before->figure('api', 'held');

    move($former, $to{late});
    eventually { $before->figure('api', 'held') == $LIMIT + $granted }
        "$how: late node declares";
    eventually { !$before->recovering
        && $before->figure('api', 'held') + $before->figure('api', 'waiting')
            == 2 * $LIMIT } "$how: all permits counted";
    # a permit is counted before its request is at the backend
    wait_for { $up->now >= $LIMIT + $granted } 15, 'those with a permit';
    my $peak = $up->peak;
    wait_for { $up->release_all; $_->done } 15, 'the end' for @asked, @long;
    is_deeply [ map { $_->status } @asked, @long ], [ (200) x (2 * $LIMIT) ],
        "$how: every request served";
    $_->quit for values %node;
    # the nodes have left it without a bye
    $replica->stop;
    return $peak;
}

is named_again('kept'), $LIMIT, 'limit reached, never exceeded';
cmp_ok named_again('lost'), '>', $LIMIT, 'term lost: limit exceeded';

$t->done;
