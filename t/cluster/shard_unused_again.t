#!/usr/bin/perl

# Two workers have left a shard that they did not use. Its clock has stood still
# since, as no session was in it. They come back, one after the other: that is no
# outage, and both are served at once.

use List::Util qw(sum0);
use lib 't/lib';
use Dsem::Clock;
use Dsem::Cluster;
use Dsem::Test;

# seconds
my $STEP = 4;

my $t = Dsem::Test->new(lease => 10);
my $cluster = Dsem::Cluster->new($t, replicas => 0);
$t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my @nodes = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_timeout 1m;
dsem_lease 10s;
dsem_reuse off;
location /time {
    return 204;
}
location / {
    dsem "$arg_n" limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# in the second shard
my ($name) = grep { Dsem::State::shard_of($_) == 1 } 'a' .. 'z';
my $state = Dsem::State->new($cluster->at($name));

# Each heartbeat publishes one message.
sub beats {
    return sum0 map { $_->calls->{publish} // 0 } $cluster->nodes;
}

# A part of a lease passes for the workers, which send a beat to the first shard,
# at least.
sub pass_time {
    my $beats = beats();
    $clock->step($STEP);
    wait_for { $_->get('/time') for @nodes; beats() >= $beats + 2 } 15,
        'heartbeats';
}

sub served { $_[0]->get("/?t=1&n=$name")->status }

is served($_), 200, 'served' for @nodes;
is $state->session_count, 2, 'both are in the shard';
for (1 .. 50) {
    last if !$state->session_count;
    pass_time();
}
is $state->session_count, 0, 'both have left it';
# three quarters of a lease, and more
pass_time() for 1 .. 4;

is served($nodes[0]), 200, 'one is back';
is served($nodes[1]), 200, 'the other one, too';
is $state->session_count, 2, 'both are in the shard again';
is $state->shard('recover_until'), 0, 'no pause';

$t->done;
