#!/usr/bin/perl

# As many nodes of a Cluster are silent as a worker asks at a time: they accept
# connections, and never reply. Each has the time to connect, and the next one
# is asked then.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my $owner = $cluster->owner;
my ($other) = grep { $_ != $owner } $cluster->nodes;
my @silent = map { $t->proxy($other->address) } 1 .. 4;
$_->freeze for @silent;

my $node = $t->node('a', <<'EOF_CONF',
worker_processes 1;
dsem_redis %%NODES%% mode=cluster;
dsem_redis_connect_timeout 300ms;
dsem_on_error reject;
add_header X-Status $dsem_status always;
location / {
    dsem api limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
    NODES => join ' ', map { $_->address } @silent, $owner);

eventually { $node->grep_log(qr/(?:connected to redis|available again)/) }
    'master found';
# found in each shard by itself
eventually { $t->state->session_count == 1 } 'registered';
is $node->get('/')->header('X-Status'), 'PASSED', 'request served';

$t->done;
