#!/usr/bin/perl

# Redis is killed and restarts empty, repeatedly under load, with a request on
# each node that outlives every restart. DSEM_LONG=1: 20 times.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (6, 1);
my $TIMES = $ENV{DSEM_LONG} ? 20 : 2;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_lease 1s;
dsem_status 503 error=500;
location /killed {
    dsem api limit=6 queue=500 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location /rejected {
    dsem api limit=6 queue=500 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# each has seen the others: else the census would not wait for all of them
$redis->all_beat(4);
my $load = $t->load_start(clients => 20, seconds => 3600,
    urls => [ map { $_->url('/killed'), $_->url('/rejected') } @fleet ]);
wait_for { $up->peak == $LIMIT && $up->served > 20 } 15, 'load';

my @pause;
for my $n (1 .. $TIMES) {
    my @long = map { $_->begin('/killed?hang=1', 'X-Nonce' => "long $n") }
        @fleet;
    wait_for { grep({ $_->{nonce} eq "long $n" } $up->log) == 2 } 10,
        'long requests';
    my $killed = now;
    $redis->empty;
    eventually { $t->state->held('api') > 2 } "$n: granted again", 10;
    push @pause, now - $killed;
    my $served = $up->served;
    wait_for { $up->served > $served + 50 } 10, 'service';
    is $up->peak, $LIMIT, "$n: limit reached, never exceeded";
    $up->release_nonce("long $n") for @fleet;
    is $_->wait->status, 200, "$n: long requests served" for @long;
    $up->reset;
    wait_for { $up->peak == $LIMIT } 15, 'load';
}

my $statuses = $load->stop->wait->{statuses};
is_deeply [ grep { !/^(?:200|500)$/ } keys %$statuses ], [],
    'all served or refused'
    or diag explain $statuses;
eventually { $t->state->session_count == 4 } 'one session per worker';
note sprintf 'pauses up to %.2f s', (sort { $b <=> $a } @pause)[0];

$t->done;
