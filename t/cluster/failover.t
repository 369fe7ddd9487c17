#!/usr/bin/perl

# A planned failover in a Cluster: workers follow to the new master, no request
# is refused, and the limit holds. Permits are granted again when all workers
# have followed; one without requests notices at its next heartbeat, within a
# second. DSEM_LONG=1: ten failovers.

use List::Util qw(max);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 6;
my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 1;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my $up = $t->upstream(service => 0.030);

# every request to /granted needs a permit that Redis has yet to grant
my ($idle, @fleet) = $t->fleet(3, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%REDIS%% mode=cluster;
location /limited {
    dsem api limit=6 queue=100 timeout=10s;
    proxy_set_header X-Sem api;
    proxy_pass http://%%UPSTREAM%%;
}
location /granted {
    dsem "n:$arg_n" limit=1 queue=10 timeout=10s;
    proxy_set_header X-Sem granted;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $n = 0;
my ($longest, $peak, @refused) = (0, 0);

sub failover {
    my ($name) = @_;
    $up->reset;
    $_->clear_logs for @fleet;
    my $load = $t->load_start(clients => 24, seconds => 600,
        urls => [ map { $_->url('/limited') } @fleet ]);
    my $grants = $t->load_start(clients => 2, seconds => 600, records => 1,
        request => sub { $fleet[ $_[0] % 2 ]->url("/granted?t=1&n=" . $n++) });
    wait_for { $up->served > 200 } 15, 'load';

    my $began = now;
    my $master = $cluster->failover;
    my $done = now;
    my $address = $master->address;
    # all workers have followed, and the load has gone on
    wait_for {
        50 < grep { $_->{sem} eq 'granted' && $_->{start} > $done } $up->log;
    } 15, 'permits granted again';
    my ($all, $granted) = map { $_->stop->wait } $load, $grants;

    is_deeply [ keys %{ $_->{statuses} } ], [200], "$name: none refused"
        or diag explain $_->{statuses} for $all, $granted;
    my @late = grep { $_->{start} + $_->{latency} > $began }
        @{ $granted->{records} };
    my $without = max map {
        took($_->{start}, $_->{start} + $_->{latency}) } @late;
    # a heartbeat and the reconnect, no lease
    cmp_ok $without, '<', 2 + took($began, $done),
        "$name: granted again in time";
    cmp_ok scalar(@late), '>', 50, "$name: many permits granted";
    is $up->peak('api'), $LIMIT, "$name: limit reached, never exceeded";
    is scalar(map { $_->grep_log(qr/unavailable \(/) } @fleet), 0,
        "$name: Redis never unavailable";
    is $cluster->owner, $master, "$name: new master";
    note sprintf '%s: %d + %d served, failover %.3f s, without grants %.3f s',
        $name, $all->{count}, $granted->{count}, $done - $began, $without;
    $longest = max($longest, $without);
    $peak = max($peak, $up->peak('api'));
    $cluster->whole;
}

failover("failover $_") for 1 .. $ROUNDS;
diag sprintf '%d failovers: longest time without grants %.3f s, peak %d',
    $ROUNDS, $longest, $peak if $ENV{DSEM_LONG};

$t->done;
