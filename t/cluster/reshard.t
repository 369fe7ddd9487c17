#!/usr/bin/perl

# The slot of the keys is moved to another master and back, again and again,
# under load. Workers follow; while keys are on their way Redis replies ASK or
# TRYAGAIN, and no request is refused. The limit holds, and no permit is lost.
# DSEM_LONG=1: for a minute.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 6;
my $SECONDS = $ENV{DSEM_LONG} ? 60 : 3;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%% mode=cluster;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 1s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
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
    }
}
EOF_CONF

# $between: called while the keys are on their way
my ($n, $moves) = (0, 0);

sub moved {
    my ($name, $seconds, $pause, $between) = @_;
    $up->reset;
    my $load = $t->load_start(clients => 24, seconds => 600,
        urls => [ map { $_->url('/limited') } @fleet ]);
    my $other = $t->load_start(clients => 4, seconds => 600,
        request => sub {
            $fleet[ $_[0] % 2 ]->url('/other?t=1&n=' . $n++ % 50) });
    wait_for { $up->served > 100 } 15, 'load';

    my $began = now;
    while (now < $began + $seconds) {
        my $from = $cluster->owner;
        my ($to) = grep { $_ != $from } $cluster->nodes;
        $cluster->move($to, $between);
        my $moved = now;
        wait_for { now > $moved + $pause } 5, 'the next one';
        $moves++;
    }
    my $served = $up->served;
    eventually { $up->served > $served + 50 } "$name: served afterwards";

    for my $result (map { $_->stop->wait } $load, $other) {
        is_deeply [ keys %{ $result->{statuses} } ], [200],
            "$name: none refused" or diag explain $result->{statuses};
        diag sprintf '%s: %d served, longest %.3f s', $name,
            $result->{count}, $result->{max} if $ENV{DSEM_LONG};
    }
    is $up->peak('api'), $LIMIT, "$name: limit reached, never exceeded";
}

# a worker that is moved in each heartbeat would begin to pause
moved('quickly', $SECONDS, 1.2);

# half of the keys at each master
moved('slowly', 1, 0, sub {
    my $began = now;
    wait_for { now > $began + 1 } 5, 'a second';
});
diag "$moves moves" if $ENV{DSEM_LONG};

my $lines = map { $_->grep_log(qr/lost \((?:MOVED|ASK|TRYAGAIN) /) } @fleet;
cmp_ok $lines, '>', 0, 'connections lost with a reason';
cmp_ok $lines, '<', 4 * 4 * $moves, 'log lines bounded';

$t->done;
