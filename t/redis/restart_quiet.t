#!/usr/bin/perl

# Redis restarts empty while a fleet has little to do: idle permits serve its
# requests, none is refused, and none waits long. DSEM_LONG=1: 20 restarts.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(max);

use Dsem::Test;

my ($LIMIT, $RATE) = (8, 20);
my $ROUNDS = $ENV{DSEM_LONG} ? 10 : 1;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.050);

my @fleet = $t->fleet(3, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 1s;
    dsem_node %%NODE%%;
    dsem_reuse 10s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=8 queue=100 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my @urls = map { $_->url('/') } @fleet;

sub restarted {
    my ($down, $name) = @_;
    $up->reset;
    my $load = $t->load_start(urls => \@urls, rate => $RATE, seconds => 3600,
        records => 1);
    # one that has none waits for Redis
    wait_for { (grep { $_->{held} } values %{ $t->state->accounts('api') })
        == 6 } 15, 'a permit in each worker';

    my $lost = now;
    $redis->kill;
    wait_for { now - $lost > $down } 15, 'the outage';
    $redis->start;
    wait_for { $t->state->shard('gen') && !$redis->recovering } 15,
        'the recovery';
    my $served = $up->served;
    wait_for { $up->served > $served + 10 } 15, 'service after it';

    my $result = $load->stop->wait;
    is_deeply [ keys %{ $result->{statuses} } ], [200],
        "$name: every request served"
        or diag explain $result->{statuses};
    my $longest = max map { took($_->{start}, $_->{start} + $_->{latency}) }
        @{ $result->{records} };
    cmp_ok $longest, '<', 1, "$name: longest wait";
    cmp_ok $up->peak, '<=', $LIMIT, "$name: limit not exceeded";
    note sprintf '%s: %d served, longest %.3f s', $name, $result->{count},
        $longest;
}

for my $n (1 .. $ROUNDS) {
    restarted(0.3, "$n: short outage");
    restarted(1.5, "$n: longer outage");
}

# the limit is one that counts
my $load = $t->load(urls => \@urls, clients => 30, requests => 300);
is_deeply [ keys %{ $load->{statuses} } ], [200], 'full load: all served';
is $up->peak, $LIMIT, 'full load: limit reached, never exceeded';

# idle permits go back
$_->quit for @fleet;
$t->done;
