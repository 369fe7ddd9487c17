#!/usr/bin/perl

# A store that does not suit is named once at start, by one worker: a policy
# that evicts keys, a replica that accepts writes, an old version. Nothing is
# logged of a store that suits, and service begins all the same.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
location / {
    dsem api limit=1 queue=10;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Lines of the log once both workers are connected, and after a reconnect.
sub said {
    my ($name, $redis, $address) = @_;
    my $node = $t->node($name, $conf, REDIS => $address // $redis->address);
    eventually { $node->grep_log(qr/\[notice\].*connected to redis/) == 2 }
        "$name: connected";
    is $node->get('/')->status, 200, "$name: served";
    $redis->client_kill;
    eventually { $node->get('/')->status == 200 } "$name: served again";
    # a worker without a connection says no bye
    eventually { 2 == grep { $_ >= 2 } Dsem::State->new($redis)->declared }
        "$name: both workers are back";
    my @lines = map { /dsem: redis \S+ (.*)/ ? $1 : () }
        grep { !/connected|reconnecting|available|lost its state/ }
        $node->grep_log(qr/dsem: redis /);
    $node->stop;
    return \@lines;
}

my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);

is_deeply said('fit', $redis, $proxy->address), [], 'fit: nothing said';

# Valkey has its own number
SKIP: {
    skip 'no old Valkey', 6 if ($ENV{DSEM_REDIS_SERVER} // '') =~ /valkey/;
    $proxy->rewrite('redis_version:\K\d\.\d', '6.0');
    my ($line, @more) = said('old', $redis, $proxy->address)->@*;
    like $line, qr/^is too old \(Redis 6\.0\S+\), version 6\.2 is needed/,
        'old: named';
    is_deeply \@more, [], 'old: once';
}

my $evicts = $t->redis(args => [qw(--maxmemory 100mb),
    qw(--maxmemory-policy allkeys-lru)]);
is_deeply said('evicts', $evicts),
    ['may evict permits (maxmemory-policy allkeys-lru), set it to noeviction'],
    'evicts: named';

# its master is not there: a copy would replace what the workers have written
my $replica = $t->redis(args => ['--replica-read-only', 'no',
    '--replicaof', '127.0.0.1', $t->free_port]);
is_deeply said('replica', $replica),
    ['is a replica, permits belong on the master'], 'replica: named';

$t->done;
