#!/usr/bin/perl

# A replica takes over: normal grants begin when all workers have declared, not
# after a lease. If a node dies with the master, they begin after a lease.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 60);

my $t = Dsem::Test->new(lease => $LEASE);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease %%LEASE%%;
location /waits {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub of { return Dsem::State->new($_[0])->figure('api', $_[1]) }

# $lost: dies with the master; each way with a fleet and servers of its own
sub lane {
    my ($how, $lease, $lost) = @_;
    my $master = $t->redis;
    my $replica = $t->redis(args => [
        '--replicaof', split /:/, $master->address ]);
    my $way = $t->proxy($master->address);
    my $up = $t->upstream;
    my @nodes = map { $t->node("$_-$how", $conf, LEASE => "${lease}s",
        REDIS => $way->address) } qw(one two);
    my @long = map { $_->begin('/waits?hang=1') } map { ($_, $_) } @nodes;
    return { how => $how, lease => $lease, lost => $lost, way => $way,
        master => $master, replica => $replica, up => $up,
        one => $nodes[0], two => $nodes[1], long => \@long };
}

sub full {
    my ($lane) = @_;
    my ($up, $replica) = @$lane{qw(up replica)};
    wait_for { $up->now == $LIMIT } 15, 'all permits out';
    wait_for {
        Dsem::State->new($replica)->session_count == 2
            && of($replica, 'held') == $LIMIT
    } 20, 'replication';
}

sub failover {
    my ($lane) = @_;
    $lane->{master}->kill;
    $lane->{two}->kill if $lane->{lost};
    $lane->{replica}->cmd(qw(REPLICAOF NO ONE));
    $lane->{back} = now;
    $lane->{way}->retarget($lane->{replica}->address);
    $lane->{asked} = [ map { $lane->{one}->begin('/waits?hang=1') } 1, 2 ];
}

sub resumed {
    my ($lane) = @_;
    my ($how, $up, $replica) = @$lane{qw(how up replica)};
    eventually { of($replica, 'held') + of($replica, 'waiting') >= 4 + 2
        || $up->started >= 6 } "$how: service resumes", $lane->{lease} + 15;
    my $resumed = now - $lane->{back};
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    my @asked = @{ $lane->{asked} };
    wait_for { $up->release_all; $_->done } 30, 'the end'
        for @asked, @{ $lane->{long} };
    is_deeply [ map { $_->status } @asked ], [ 200, 200 ],
        "$how: every request served";
    note sprintf '%s: after %.2f s', $how, $resumed;
    return $resumed;
}

my @lanes = (lane('alive', $LEASE, 0), lane('missing', 1, 1));
full($_) for @lanes;
# the more seldom ones
$lanes[0]{master}->all_beat(2);
failover($_) for @lanes;
# the one that takes longer first, as a later look would find it later
cmp_ok resumed($lanes[1]), '>', 0.5, 'missing session waited for';
cmp_ok resumed($lanes[0]), '<', $LEASE / 2, 'not after a lease';

$t->done;
