#!/usr/bin/perl

# Workers look for Redis by a name, with Sentinel, and in a Cluster, while
# allocations, calls of the system and of nginx fail, each path through the
# module once. No worker dies, and each of them finds Redis again.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Faults;
use Dsem::Test;

plan skip_all => Dsem::Faults::unusable() if Dsem::Faults::unusable();

my $ROUNDS = 20;

my $t = Dsem::Test->new(lease => 1);
my $faults = Dsem::Faults->new($t);
my $redis = $t->redis;
my $set = $t->sentinel;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;
$t->dns('redis.dsem.test' => [ '127.0.0.1' ]);
$t->expect_log(qr/dsem: getrandom\(\) failed/);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis %%ADDRESSES%%;
resolver %%DNS%% valid=1s ipv6=off;
dsem_redis_connect_timeout 500ms;
dsem_redis_timeout 800ms;
dsem_lease 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=2 queue=100 timeout=2s;
        proxy_set_header X-Sem %%NODE%%;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /other {
        dsem other limit=2 queue=100 timeout=2s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ { dsem_api write=on; }
}
EOF_CONF

my %addresses = (
    name => 'redis.dsem.test:' . $redis->port,
    sentinel => $set->addresses . ' mode=sentinel master=' . $set->name,
    cluster => $cluster->address . ' mode=cluster',
);
my @nodes = map { $faults->node($_, $conf, ADDRESSES => $addresses{$_}) }
    sort keys %addresses;
my @servers = ($redis, $set->master, $cluster->nodes);

sub served {
    my ($node) = @_;
    return $node->get('/?t=1')->status == 200;
}

# Those of workers only: a sentinel without connection replaces the master.
sub lose_connections {
    my ($server) = @_;
    my @ids = map { /\bid=(\d+) .*\bname=dsem-/ } split /\n/,
        $server->cmd(qw(CLIENT LIST));
    $server->cmd(qw(CLIENT KILL ID), $_) for @ids;
}

for my $node (@nodes) {
    eventually { served($node) } $node->name . ': served';
}
my %workers = map { $_->name => [ $_->workers ] } @nodes;

$faults->on(qw(memory system nginx));
my ($began, $i, $last, $quiet) = (now, 0, 0, 0);
while ($quiet < 20 && $i < $ROUNDS) {
    $i++;
    my @requests = map {
        my $node = $_;
        map { $node->begin($_) } qw(/?t=1 /other?t=1 /?t=2 /other?t=2
            /dsem/semaphores /dsem/semaphores/other);
    } @nodes;
    lose_connections($_) for @servers;
    $_->wait for @requests;
    my $failed = $faults->failed;
    $quiet = $failed > $last ? 0 : $quiet + 1;
    $last = $failed;
}
$faults->off;
note sprintf '%d paths failed in %d rounds, %.1f s', $last, $i, now - $began;

cmp_ok $last, '>', 50, 'paths failed';
for my $node (@nodes) {
    my $name = $node->name;
    eventually { served($node) } "$name: served again";
    is_deeply [ $node->workers ], $workers{$name}, "$name: same workers";
    cmp_ok $up->peak($name), '<=', 2, "$name: limit not exceeded";
}

$t->done;
