#!/usr/bin/perl

# A permit that is released on one node reaches a request that waits on another
# one by a message, also when the keys have moved, after a failover, and when
# the node to which a worker was subscribed is gone: all nodes of a Cluster
# pass messages on. Without messages a request would wait up to a second.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

# a wait without messages ends at any time within a second
my ($IN_TIME, $TIMES) = (0.4, 8);

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
location / {
    dsem api limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Seconds from a release on one node to the end of a request on the other,
# without the stalls of the machine.
sub handed_over {
    my ($from, $to) = @_;
    my $first = $from->begin('/?hang=1');
    wait_for { $up->now == 1 } 15, 'the permit';
    my $second = $to->begin('/?t=1');
    wait_for { eval { $t->state->waiting('api') == 1 } } 15,
        'a request in the queue';
    my $released = now;
    $up->release_all;
    $second->wait;
    my $took = took($released);
    $first->wait;
    return $took;
}

sub all_handed_over {
    my ($name) = @_;
    my @took = map { handed_over(@fleet), handed_over(reverse @fleet) }
        1 .. $TIMES / 2;
    # a busy machine may delay one of them
    cmp_ok((sort { $a <=> $b } @took)[-2], '<', $IN_TIME,
        "$name: granted in time");
    note sprintf '%s: %s', $name, join ' ', map { sprintf '%.3f', $_ } @took;
}

all_handed_over('found');

my $owner = $cluster->owner;
my ($other) = grep { $_ != $owner && !$cluster->owns($_)
    && Dsem::Cluster::myself($_) =~ /master/ } $cluster->nodes;
$cluster->move($other);
all_handed_over('moved');

$cluster->failover;
all_handed_over('failover');

# a worker subscribes to the first node that it knows, and stays there
my ($subscribed) = grep { @{ $_->cmd(qw(PUBSUB CHANNELS)) } } $cluster->nodes;
my $successor = Dsem::Cluster::myself($subscribed) =~ /master/
    ? $cluster->replica($subscribed) : undef;
$subscribed->kill;
$cluster->take_over($successor) if $successor;
eventually { handed_over(@fleet) < $IN_TIME
    && handed_over(reverse @fleet) < $IN_TIME } 'subscribed again', 10;
all_handed_over('killed');

$t->done;
