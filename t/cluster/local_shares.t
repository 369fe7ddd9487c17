#!/usr/bin/perl

# The master of a shard is lost, for longer than a lease. Workers share limits
# without it as one fleet, also if each has used another shard before, and none
# this one. So they do if the lost one is that in which all are registered.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new(lease => 1);
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my ($first, $second) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 500ms;
dsem_lease 1s;
dsem_reuse off;
add_header X-Status $dsem_status always;
location / {
    dsem "$arg_n" limit=4;
    proxy_set_header X-Sem $arg_n;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a name for each shard
my %name;
for ('a' .. 'z') { $name{ Dsem::State::shard_of($_) } //= $_ }

sub status {
    my ($node, $shard) = @_;
    return $node->get("/?t=1&n=$name{$shard}")->header('X-Status');
}

# as many requests of one name as the workers pass
sub fill {
    my ($shard) = @_;
    my $name = $name{$shard};
    my @asked = map { my $node = $_;
        map { $node->begin("/?hang=1&n=$name") } 1 .. $LIMIT }
        $first, $second;
    wait_for { $up->now($name) + grep({ $_->done } @asked) == @asked } 15,
        'all requests decided';
    is $up->peak($name), $LIMIT, "shard $shard: limit reached, never exceeded";
    $up->release_all;
    $_->wait for @asked;
}

sub lose {
    my ($shard) = @_;
    my $master = $cluster->at($name{$shard})->owner;
    $master->freeze;
    # without a session a worker admits its share when the lease is over
    for ($first, $second) {
        wait_for { status($_, $shard) eq 'DEGRADED' } 15, 'requests degraded';
    }
    my $lost = now;
    wait_for { now > $lost + 1.2 } 15, 'the lease';
    fill($shard);
    return $master;
}

# a first use that takes longer than the timeouts is no more than DEGRADED
eventually { status($first, 3) eq 'PASSED' } 'one worker in one shard';
eventually { status($second, 0) eq 'PASSED' } 'the other in another';
lose(1)->thaw;
eventually { status($_, 1) eq 'PASSED' } 'available again' for $first, $second;
lose(0)->thaw;
eventually { status($_, 0) eq 'PASSED' } 'available again' for $first, $second;

$t->done;
