#!/usr/bin/perl

# Redis restarts empty, under load, with all workers alive: normal grants begin
# about a second later, not after a lease. Running requests are declared before
# anything is granted.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use List::Util qw(min);

use Dsem::Test;

my ($LIMIT, $LEASE) = (6, 10);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 10s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /loaded {
            dsem api limit=6 queue=500 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /idle {
            dsem idle limit=1 queue=10 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub of { return $t->state->shard($_[0]) // 0 }

sub recovered { return of('gen') && of('recover_until') <= of('clock') }

# the time from Redis back until permits are granted
sub resumes {
    my ($how, $down) = @_;
    $up->reset;
    my @long = map { $_->begin('/loaded?hang=1') } @fleet;
    wait_for { $up->now == 2 } 15, 'long requests';
    my $load = $t->load_start(clients => 20, seconds => 3600,
        urls => [ map { $_->url('/loaded') } @fleet ]);
    wait_for { $up->peak == $LIMIT && $up->served > 20 } 15, 'load';
    wait_for { $t->state->session_count == 4 } 15, 'all sessions';

    my $killed = now;
    $redis->kill;
    wait_for { now > $killed + $down } 15, 'downtime';
    $redis->start;
    my $back = now;
    # of a semaphore without permits
    my $first = $fleet[0]->begin('/idle?t=1');
    eventually { recovered() } "$how: recovered before the lease", $LEASE / 2;
    is $first->wait->status, 200, "$how: new request served";
    my $granted = took($back);

    $up->reset;
    wait_for { $up->served > 50 } 15, 'service';
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
        "$how: every request served";
    $up->release_all;
    is $_->wait->status, 200, "$how: long requests served" for @long;
    note sprintf '%s: first grant after %.2f s', $how, $granted;
    return $granted;
}

my @time = map { resumes("restart $_", 0.1) } 1 .. 2;
push @time, resumes('1.5 s down', 1.5);
cmp_ok min(@time), '<=', 1, 'within a second';

is $fleet[0]->logged($fleet[0]->get('/idle?t=1'))->{dsem_status}, 'PASSED',
    'granted by Redis';

$t->done;
