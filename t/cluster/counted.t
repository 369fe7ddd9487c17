#!/usr/bin/perl

# A worker that uses all shards of a Cluster has a session in each of them. The
# figures of the fleet count it once, as a worker process, and as one that
# holds permits.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
location /one { dsem one limit=4; proxy_pass http://%%UPSTREAM%%; }
location /c { dsem c limit=4; proxy_pass http://%%UPSTREAM%%; }
location /d { dsem d limit=4; proxy_pass http://%%UPSTREAM%%; }
location /a { dsem a limit=4; proxy_pass http://%%UPSTREAM%%; }
location /dsem/ {
    dsem_api;
}
EOF_CONF

# one name in each shard
my @NAMES = qw(one c d a);
is_deeply [ map { Dsem::State::shard_of($_) } @NAMES ], [0 .. 3], 'shards';

my @running = map { $fleet[0]->begin("/$_?hang=1") } @NAMES;
wait_for { $up->now == 4 } 15, 'all at the backend';

my ($figures, $seen);
for my $node (@fleet) {
    eventually {
        $figures = decode_json($node->get('/dsem/semaphores')->body);
        $seen = grep { $_->{in_use} } @{ $figures->{semaphores} };
        !$figures->{fleet}{partial} && $seen == 4
            && @{ $figures->{fleet}{nodes} } == 2;
    } 'all shards are seen';
    is $figures->{fleet}{sessions}, 2, 'worker processes';
    is_deeply [ map { [ @$_{qw(node sessions holding)} ] }
        @{ $figures->{fleet}{nodes} } ], [ [ 'n1', 1, 1 ], [ 'n2', 1, 0 ] ],
        'each counted once';
    is_deeply [ $node->get('/dsem/metrics')->body
        =~ /^dsem_fleet_sessions (\d+)$/mg ], [2], 'and in the metrics';
}

$up->release_all;
$_->wait for @running;

$t->done;
