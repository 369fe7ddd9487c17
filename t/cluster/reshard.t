#!/usr/bin/perl

# The slot of the keys is moved to another master and back, under load. Workers
# follow; while keys are on their way Redis replies ASK or TRYAGAIN, and no
# request is refused. The limit holds, and no permit is lost. DSEM_LONG=1: again
# and again, for a minute.

use List::Util qw(sum0);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 6;
my $TIMES = $ENV{DSEM_LONG} ? 50 : 2;

my $t = Dsem::Test->new(lease => 3);
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%REDIS%% mode=cluster;
dsem_lease 3s;
location /limited {
    dsem api limit=6 queue=100 timeout=10s;
    proxy_set_header X-Sem api;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem "n:$arg_n" limit=1 queue=10 timeout=10s;
    proxy_set_header X-Sem other;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Replies of a master by which workers were sent elsewhere.
sub redirected {
    my ($from) = @_;
    return sum0 $from->cmd('INFO', 'errorstats')
        =~ /^errorstat_(?:ASK|TRYAGAIN):count=(\d+)/mg;
}

# $between: called while the keys are on their way
my ($n, $moves) = (0, 0);

sub moved {
    my ($name, $times, $pause, $between) = @_;
    $up->reset;
    my $load = $t->load_start(clients => 24, seconds => 600,
        urls => [ map { $_->url('/limited') } @fleet ]);
    my $other = $t->load_start(clients => 4, seconds => 600,
        request => sub {
            $fleet[ $_[0] % 2 ]->url('/other?t=1&n=' . $n++ % 50) });
    wait_for { $up->served > 100 } 15, 'load';

    for (1 .. $times) {
        my $from = $cluster->owner;
        my ($to) = grep { $_ != $from } $cluster->nodes;
        $cluster->move($to, $between && sub { $between->($from) });
        my $moved = now;
        wait_for { now > $moved + $pause } 5, 'the next one';
        $moves++;
    }
    my $served = $up->served;
    eventually { $up->served > $served + 50 && $up->peak('api') >= $LIMIT }
        "$name: served afterwards";

    for my $result (map { $_->stop->wait } $load, $other) {
        is_deeply [ keys %{ $result->{statuses} } ], [200],
            "$name: none refused" or diag explain $result->{statuses};
        diag sprintf '%s: %d served, longest %.3f s', $name,
            $result->{count}, $result->{max} if $ENV{DSEM_LONG};
    }
    is $up->peak('api'), $LIMIT, "$name: limit reached, never exceeded";
}

# a worker that is moved in each heartbeat would begin to pause
moved('quickly', $TIMES, 0.8);

# half of the keys at each master
moved('slowly', 1, 0, sub {
    my ($from) = @_;
    my $enough = redirected($from) + 8;
    wait_for { redirected($from) >= $enough } 15, 'requests meanwhile';
});
diag "$moves moves" if $ENV{DSEM_LONG};

my $lines = map { $_->grep_log(qr/lost \((?:MOVED|ASK|TRYAGAIN) /) } @fleet;
cmp_ok $lines, '>', 0, 'connections lost with a reason';
cmp_ok $lines, '<', 4 * 4 * $moves, 'log lines bounded';

$t->done;
