#!/usr/bin/perl

# The configured single server is a node of a Redis Cluster, which it may not
# tell. While it owns the keys of dsem, nothing changes. When the keys have moved, are migrating or
# have no owner, Redis is unavailable, and the log names the cause.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 300ms;
dsem_redis_timeout 1500ms;
dsem_lease 1s;
dsem_status 503 error=500;
location /reject {
    dsem api limit=2 queue=10 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem other limit=2 queue=10 timeout=10s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# not port + 10000, from which outgoing connections take theirs
my @bus = map { $t->free_port } 1, 2;
my ($redis, $other) = map { $t->redis(args => [qw(--cluster-enabled yes
    --cluster-config-file), "nodes$_.conf", '--cluster-port', $_ ]) } @bus;
$redis->cmd(qw(CLUSTER ADDSLOTSRANGE 0 16383));
$redis->cmd(qw(CLUSTER MEET), split(/:/, $other->address),
    $bus[1]);
my $slot = $redis->cmd(qw(CLUSTER KEYSLOT), $t->state->key);
my $others = $other->cmd(qw(CLUSTER MYID));
wait_for { $redis->cmd(qw(CLUSTER INFO)) =~ /cluster_state:ok/
    && $redis->cmd(qw(CLUSTER NODES)) =~ /^$others .* connected/m
    && $redis->cmd(qw(CLUSTER NODES)) !~ /handshake/ } 20, 'a cluster';
$_->cmd(qw(ACL SETUSER), $_->user, '-info') for $redis, $other;
my $proxy = $t->proxy($redis->address);
my $node = $t->node('cluster', $conf, REDIS => $proxy->address);

sub state { return $t->state->figure('api', $_[0]) }

# error: the reply of Redis; most: log lines in about a second, at most
sub answered {
    my ($name, $error, $most, $cause, $cure) = @_;
    my @running = map { $node->begin('/reject?hang=1') } 1, 2;
    wait_for { $up->now == 2 } 15, 'all permits out';
    my $waiting = $node->begin('/reject?hang=1');
    wait_for { state('waiting') == 1 } 15, 'one request queued';
    # an idle permit would serve requests without Redis
    wait_for { !($t->state->figure('other', 'held') // 0) } 15, 'none idle';
    $node->clear_logs;

    $cause->();
    # a heartbeat may get the first error
    is $waiting->wait->status, 500, "$name: waiting request refused";
    my $began = now;
    my ($longest, %status) = 0;
    while (now < $began + 0.4) {
        my $asked = $node->get('/reject');
        $status{ $asked->status }++;
        $longest = $asked->took if $asked->took > $longest;
        $status{ $node->get('/pass?t=1')->status }++;
    }
    is_deeply [ sort keys %status ], [ 200, 500 ], "$name: refused or passed";
    cmp_ok $longest, '<', 0.5 + 1.5, "$name: all in time";
    is $up->now, 2, "$name: running requests kept";

    my $took = now - $began;
    $most *= $took if $most > 1 && $took > 1;
    $cure->();
    eventually {
        $node->grep_log(qr/available again/)
            == $node->grep_log(qr/unavailable \(/)
    } "$name: available again", 3;
    my @said = $node->grep_log(qr/\[error\].*dsem: .*unavailable \(.*$error/);
    cmp_ok scalar(@said), '>', 0, "$name: cause logged";
    cmp_ok scalar(@said), '<=', $most, "$name: log lines bounded";
    is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem: /)), scalar(@said),
        "$name: no other warning";
    eventually { state('held') == 2 } "$name: permits still held";
    is $node->get('/pass?t=1')->status, 200, "$name: request served again";
    $up->release_all;
    is $_->wait->status, 200, "$name: running requests served" for @running;
    my %said = map { $_->{dsem_status} => 1 } $node->access_log;
    ok $said{DEGRADED} && $said{ERROR}, "$name: statuses logged";
}

sub slot { $redis->cmd(qw(CLUSTER SETSLOT), $slot, @_) }

answered('clusterdown', 'CLUSTERDOWN', 1,
    sub { $redis->cmd(qw(CLUSTER DELSLOTS), $slot) },
    sub { $redis->cmd(qw(CLUSTER ADDSLOTS), $slot);
        # the other one as well: it would reply CLUSTERDOWN instead of MOVED
        wait_for { 2 == grep { $_->cmd(qw(CLUSTER INFO)) =~ /cluster_state:ok/ }
            $redis, $other } 15, 'a cluster' });
answered('moved', 'MOVED .*mode=cluster', 1,
    sub { $proxy->retarget($other->address); $proxy->cut },
    sub { $proxy->retarget($redis->address); $proxy->cut });
# hello succeeds, later commands fail: retried with growing pauses
answered('tryagain', 'TRYAGAIN', 4,
    sub { slot('MIGRATING', $others) }, sub { slot('STABLE') });

$t->done;
