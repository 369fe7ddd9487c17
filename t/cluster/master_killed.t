#!/usr/bin/perl

# The master that has the keys is killed. The workers find its successor soon
# after its promotion. Until then dsem_on_error local admits requests: none is
# refused, and the limit holds.
# DSEM_LONG=1: five masters.

use List::Util qw(max);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 8;
my $ROUNDS = $ENV{DSEM_LONG} ? 5 : 1;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my $up = $t->upstream(service => 0.030);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 1s;
location / {
    dsem api limit=8 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @figures;

sub killed {
    my ($name) = @_;
    $up->reset;
    wait_for { $t->state->session_count == 2 * @fleet } 15, 'all workers';
    $_->clear_logs for @fleet;
    my $load = $t->load_start(clients => 24, seconds => 600,
        urls => [ map { $_->url('/') } @fleet ]);
    wait_for { $up->served > 200 } 15, 'load';

    my ($master, $replica) = ($cluster->owner, $cluster->replica);
    $master->kill;
    my $killed = now;
    my $lost = qr/\[error\].*dsem: .*unavailable \(/;
    wait_for { 2 * @fleet == grep { /$lost/ } map { $_->grep_log($lost) }
        @fleet } 15, 'Redis to be unavailable';
    $cluster->take_over($replica);
    my $promoted = now;
    my $address = $replica->address;
    my $again = qr/redis \Q$address\E available again after/;
    wait_for { 2 * @fleet == grep { /$again/ } map { $_->grep_log($again) }
        @fleet } 15, 'all workers to follow';
    my $followed = now;
    my $served = $up->served;
    wait_for { $up->served > $served + 100 } 15, 'load';
    my $result = $load->stop->wait;

    is_deeply [ keys %{ $result->{statuses} } ], [200], "$name: none refused"
        or diag explain $result->{statuses};
    cmp_ok took($promoted, $followed), '<', 1,
        "$name: new master found in time";
    is $up->peak, $LIMIT, "$name: limit reached, never exceeded";
    my @said = map { $_->grep_log($lost) } @fleet;
    is scalar(@said), 2 * @fleet, "$name: one line per worker";
    is scalar(grep { /timed out|in time/ } @said), 0, "$name: cause logged"
        or diag join "\n", @said;
    push @figures, [$promoted - $killed, $followed - $promoted, $up->peak];
    note sprintf '%s: %d served, promoted after %.3f s, followed after '
        . '%.3f s', $name, $result->{count}, @{ $figures[-1] }[0, 1];
    return $master;
}

for my $n (1 .. $ROUNDS) {
    my $master = killed("kill $n");
    next if $n == $ROUNDS;
    $master->start;
    $cluster->whole;
}
diag sprintf '%d masters killed: followed %.3f s after promotion, peak %d',
    $ROUNDS, max(map { $_->[1] } @figures), max(map { $_->[2] } @figures)
    if $ENV{DSEM_LONG};

$t->done;
