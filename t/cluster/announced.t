#!/usr/bin/perl

# What nodes of a Cluster announce: no host, which is that of the node that
# replies; a name that dsem_redis has; another name, which is an error that the
# log explains, until Redis is configured otherwise.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
# a name in the first shard, which all workers use: there is no other one
my $cluster = Dsem::Cluster->new($t, replicas => 0, name => 'one');
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%OTHER%% mode=cluster;
dsem_redis_connect_timeout %%TIMEOUT%%;
dsem_status 503 error=500;
location / {
    dsem one limit=2 queue=10 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $owner = $cluster->owner;
my ($other) = grep { $_ != $owner } $cluster->nodes;
my $port = $owner->port;

# Sets it in all nodes; returns when the other node announces this.
sub announce {
    my ($host, %setting) = @_;
    for my $node ($cluster->nodes) {
        $node->cmd(qw(CONFIG SET), %setting);
    }
    wait_for {
        !eval { $other->cmd('GET', $t->state->key); 1 }
            && $@ =~ /MOVED \d+ \Q$host\E:$port\b/;
    } 10, "host \"$host\"";
}

sub served {
    my ($name, $address) = @_;
    my $node = $t->node($name, $conf, OTHER => $address,
        TIMEOUT => '30s');
    is $node->get('/?t=1')->status, 200, "$name: served";
    is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem/)), 0,
        "$name: no warning";
    return $node;
}

announce('', 'cluster-preferred-endpoint-type' => 'unknown-endpoint');
my $node = served('no_host', $other->address);
is scalar($node->grep_log(qr/connected to redis 127\.0\.0\.1:$port /)), 1,
    'no host: that of the other node';

announce('localhost', 'cluster-preferred-endpoint-type' => 'hostname',
    'cluster-announce-hostname' => 'localhost');
served('known_name', 'localhost:' . $other->port);

announce('redis-1.invalid', 'cluster-announce-hostname' => 'redis-1.invalid');
my $lost = $t->node('unknown_name', $conf, OTHER => $other->address,
    TIMEOUT => '1s');
eventually { $lost->grep_log(qr/\Qunavailable (MOVED \E/) }
    'unknown name: unavailable';
is $lost->get('/?t=1')->status, 500, 'unknown name: refused';
my @said = $lost->grep_log(qr/names another node/);
is scalar(@said), 1, 'unknown name: logged once';
my $address = $other->address;
like $said[0], qr/\Q[error]\E .*\Qdsem: redis $address names another node \E
    \Q"redis-1.invalid:$port", which is no address, set \E
    \Q"cluster-preferred-endpoint-type ip" in Redis, or write that name \E
    \Qin "dsem_redis"\E$/x, 'unknown name: explained';

announce('127.0.0.1', 'cluster-preferred-endpoint-type' => 'ip');
eventually { $lost->grep_log(qr/available again/) } 'unknown name: cured';
is $lost->get('/?t=1')->status, 200, 'unknown name: served then';

$t->done;
