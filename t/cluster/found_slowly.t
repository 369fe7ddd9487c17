#!/usr/bin/perl

# A worker of a Cluster whose nodes reply slowly: the time to connect begins anew
# when one of them has named another node. No request is refused meanwhile. A
# master that does not reply at all is unavailable then.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
# a name in the first shard, which all workers use: there is no other one
my $cluster = Dsem::Cluster->new($t, replicas => 0, name => 'one');
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%OTHER%% mode=cluster;
dsem_redis_connect_timeout 20s;
location / {
    dsem one limit=2 queue=10 timeout=300s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /free { return 204; }
EOF_CONF

my $owner = $cluster->owner;
my ($other) = grep { $_ != $owner } $cluster->nodes;
my $port = sprintf ':%04X', $owner->port;

# connections to the owner
sub established {
    open my $tcp, '<', '/proc/net/tcp' or die $!;
    return scalar grep { (split)[2] =~ /$port$/ && (split)[3] eq '01' } <$tcp>;
}

# The owner is asked when most of the time to connect has passed.
sub redirected {
    my ($name) = @_;
    my $proxy = $t->proxy($other->address);
    $proxy->freeze('s2c');
    $owner->freeze;
    my $node = $clock->node($name, $conf, OTHER => $proxy->address);
    my $request = $node->begin('/?t=1');
    wait_for { $proxy->bytes->{c2s} } 15, 'a question';
    passed($node, 15);
    my $before = established();
    $proxy->thaw('s2c');
    wait_for { established() > $before } 15, 'another node to be asked';
    return ($node, $request);
}

# The timers of the node are late by then: deadlines are extended once.
sub passed {
    my ($node, $seconds) = @_;
    for my $step ($seconds - 1, 1) {
        $clock->step($step);
        $node->get('/free') for 1 .. 3;
    }
}

my ($node, $request) = redirected('slow');
passed($node, 16);
is scalar($node->grep_log(qr/unavailable/)), 0, 'slow: still connecting';
$owner->thaw;
is $request->wait->status, 200, 'slow: request served';
is scalar($node->grep_log(qr/unavailable/)), 0, 'slow: never unavailable';
$node->quit;

($node, $request) = redirected('silent');
passed($node, 22);
is $request->wait->status, 503, 'silent: request refused';
$owner->thaw;
eventually { $node->grep_log(qr/available again/) == 1 }
    'silent: available again';

$t->done;
