#!/usr/bin/perl

# Nodes with equal load get equal shares. A node with much more load does not
# delay another node's client: its requests wait for earlier requests only.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my ($LIMIT, $SERVICE) = (4, 0.010);
my $CLIENTS = 45;
# each client is served as often
my $REQUESTS = $CLIENTS * ($ENV{DSEM_LONG} ? 200 : 7);

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => $SERVICE);

# A worker serves its own requests while replies are late, see order.t: Redis is
# far away.
my $proxy = $t->proxy($redis->address);
$proxy->delay(0.015, 's2c');

my $clock = Dsem::Clock->new($t, monotonic => 1);
my @fleet = $clock->fleet(3, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_lease 10m;
location /shared {
    dsem api limit=4 queue=1000 timeout=60s;
    add_header X-Place $dsem_queue_position;
    proxy_set_header X-Node %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Equal clients everywhere: as long as all of them want more. Clients whose
# process is stopped for a moment want less: then the requests are counted anew.

my @load;
for my $node (@fleet) {
    push @load, $t->load_start(urls => [ $node->url('/shared') ],
        clients => $CLIENTS / 3, seconds => 600);
}
wait_for { $up->now == $LIMIT } 15, 'load';
my %of;
for (1 .. 5) {
    $up->reset;
    # requests still running are not in the log
    wait_for { $up->served >= $REQUESTS + 2 * $LIMIT } 60,
        'many requests granted';
    %of = ();
    $of{ $_->{node} }++ for ($up->log)[0 .. $REQUESTS - 1];
    last if keys %of == 3
        && !grep { abs($_ / $REQUESTS - 1 / 3) >= 1 / 30 } values %of;
}
is_deeply [ keys %{ $_->stop->wait->{statuses} } ], [200], 'all requests served'
    for @load;
is scalar(keys %of), 3, 'requests from each node';
for my $node (sort keys %of) {
    cmp_ok abs($of{$node} / $REQUESTS - 1 / 3), '<', 1 / 30,
        "$node: a third, within a tenth";
}
is $up->peak, $LIMIT, 'limit reached, never exceeded';
note join ', ', map { "$_ $of{$_}" } sort keys %of;

# Twenty here, one there: each time at most twenty are before it. No reply is late.

wait_for { !$t->state->exists('api') } 15, 'no permit out';
$clock->stop;
$up->reset;
my $greedy = $t->load_start(urls => [ $fleet[0]->url('/shared') ],
    clients => 20, seconds => 600);
wait_for { $up->now == $LIMIT && $up->served > 20 } 15, 'the greedy one';
my @place;
for my $n (1 .. 12) {
    my $polite = $fleet[1]->get('/shared');
    is $polite->status, 200, 'polite request served' if $n == 1;
    push @place, $polite->header('X-Place') || 0;
}
is_deeply [ keys %{ $greedy->stop->wait->{statuses} } ], [200],
    'greedy requests served';
$clock->go;
my ($least, $most) = (sort { $a <=> $b } @place)[0, -1];
cmp_ok $most, '<=', 20 - $LIMIT + 1, 'no later request first';
cmp_ok $most, '>', 10, 'earlier requests first';
is $up->peak, $LIMIT, 'limit never exceeded';
note "places $least to $most";

$t->done;
