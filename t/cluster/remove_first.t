#!/usr/bin/perl

# A worker is asked to remove a session before it has met the shards that it
# does not use: it asks when it has connected to them, and the answer is what
# Redis says. A shard that is lost keeps it from no other.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0,
    args => [qw(--cluster-require-full-coverage no)]);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_timeout 10s;
location / {
    dsem "$arg_n" limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

# in the last shard, where only this node is
my $last = Dsem::State->new($cluster->at('a'));
is Dsem::State::shard_of('a'), 3, 'the last shard';
my $running = $t->node('holder', $conf)->begin('/?hang=1&n=a');
wait_for { $up->now == 1 } 15, 'request running';
my ($session) = grep { /^holder:/ } $last->sessions;
is $last->session_count, 1, 'one session there';

# a worker that was in the first shard only
sub removed {
    my ($name, $session) = @_;
    my $node = $t->node($name, $conf);
    wait_for { $node->grep_log(qr/connected to redis/) } 15, 'a session';
    my $status = $node->get("/dsem/sessions/$session",
        -method => 'DELETE')->status;
    return ($status, scalar $node->grep_log(qr/no reply to a change/));
}

my $unknown = 'n9:0:0123456789abcdef';
is_deeply [ removed('first', $session) ], [ 409, 0 ], 'it is alive';
is_deeply [ removed('second', $unknown) ], [ 404, 0 ], 'in no shard';

my $lost = $cluster->at('c')->owner;
isnt $lost, $cluster->at('a')->owner, 'another master';
$lost->kill;
is_deeply [ removed('third', $session) ], [ 409, 0 ], 'found all the same';
is_deeply [ removed('fourth', $unknown) ], [ 503, 0 ], 'it may be there';

$cluster->start($lost);
$up->release_all;
is $running->wait->status, 200, 'request served';

$t->done;
