#!/usr/bin/perl

# The master of a shard is lost while one worker uses all permits of a semaphore
# in it, and another one, which was in other shards only, gets its first requests
# of the same name. It admits none for a lease. A worker that a reload starts after
# that admits its share at once, as its node knows when the master was lost.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my ($first, $second) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 500ms;
dsem_lease 5s;
dsem_reuse off;
add_header X-Status $dsem_status always;
location / {
    dsem "$arg_n" limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# in the second shard
my ($name) = grep { Dsem::State::shard_of($_) == 1 } 'a' .. 'z';
my $master = $cluster->at($name)->owner;

my @held = map { $first->begin("/?hang=1&n=$name") } 1 .. $LIMIT;
eventually { $up->now == $LIMIT } 'all permits are in use';
$master->freeze;

my @asked = map { $second->begin("/?hang=1&n=$name") } 1 .. $LIMIT;
eventually { $second->grep_log(qr/redis \S+ unavailable/) } 'master lost';
eventually { $up->now == 2 * $LIMIT || @asked == grep { $_->done } @asked }
    'all requests of the other worker decided';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
is $_->wait->header('X-Status'), 'REJECTED', 'no share' for @asked;

$up->release_all;
$_->wait for @held;

sub status { $first->get("/?t=1&n=$name")->header('X-Status') }

eventually { status() eq 'DEGRADED' } 'what it had, after 3/4 of the lease', 15;
my $since = now;
wait_for { now > $since + 2.5 } 15, 'the lease and a heartbeat';
$first->reload;
is status(), 'DEGRADED', 'and at once after a reload';

$master->thaw;
eventually { $second->get("/?t=1&n=$name")->status == 200 } 'available again';

$t->done;
