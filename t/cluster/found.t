#!/usr/bin/perl

# Whichever node of a Cluster is named first, each worker finds the master that
# has the keys: by a master, by a replica, past a node that does not exist and
# past one that does not reply. The limit is reached, and holds over the fleet.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my $up = $t->upstream(service => 0.010);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%NODES%% mode=cluster;
location / {
    dsem api limit=4 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $owner = $cluster->owner;
my $replica = $cluster->replica;
my ($other) = grep { $_ != $owner && $_ != $replica } $cluster->nodes;
my $silent = $t->proxy($other->address);
$silent->freeze;
my $nothing = '127.0.0.1:' . $t->free_port;

my %nodes = (
    owner => $owner->address,
    replica => $replica->address,
    other => $other->address,
    nothing => join(' ', $nothing, $other->address),
    silent => join(' ', $silent->address, $replica->address),
    all => $cluster->address,
);

my @fleet = map { $t->node($_, $conf, NODES => $nodes{$_}) } sort keys %nodes;
for my $node (@fleet) {
    my $name = $node->name;
    is $node->get('/')->status, 200, "$name: served";
    eventually { $node->grep_log(qr/connected to redis \Q@{[
        $owner->address ]}\E /) } "$name: master found";
    is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem/)), 0,
        "$name: no warning";
}
is $t->state->session_count, scalar(@fleet), 'all in one registry';

my $load = $t->load(clients => 30, requests => 400,
    urls => [ map { $_->url('/') } @fleet ]);
is_deeply [ keys %{ $load->{statuses} } ], [200], 'every request served';
is $up->peak, $LIMIT, 'limit reached, never exceeded';

$t->done;
