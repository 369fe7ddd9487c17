#!/usr/bin/perl

# A shard loses its state while a worker is not in it. The worker has nothing
# there: when it uses the shard again it logs no loss.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $cluster = Dsem::Cluster->new($t, replicas => 0)->at('a');
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_lease 1s;
location / {
    dsem "$arg_n" limit=2 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = Dsem::State->new($cluster);
my ($node, $other) = $t->fleet(2, $conf);
is $node->get('/?t=1&n=a')->status, 200, 'served';
my $generation = $state->shard('gen');
# after ten leases without a permit
wait_for { $state->session_count == 0 } 60, 'the shard to be left';

$cluster->owner->cmd('FLUSHALL');
is $other->get('/?t=1&n=a')->status, 200, 'served by another node';
isnt $state->shard('gen'), $generation, 'another state';
# for a lease a worker that knows the former one would make others wait
my $clock = $state->shard('clock');
wait_for { $state->shard('clock') > $clock + 1500 } 15, 'more than a lease';
is $node->get('/?t=1&n=a')->status, 200, 'served again';
is scalar(map { $_->grep_log(qr/\[(?:warn|error)\].*dsem: /) } $node, $other),
    0, 'no warning';

$t->done;
