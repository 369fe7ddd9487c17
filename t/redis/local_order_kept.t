#!/usr/bin/perl

# A lower limit by an operator's order stays in force while Redis is unavailable,
# as far as the node has seen it: of a name from variables, whose account is gone
# when no request has it, and for a worker that starts in the outage. An order
# that ends is forgotten.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
add_header X-Dsem $dsem_status always;
location / {
    dsem tenant:$arg_t limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
location /literal {
    dsem api limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %path = (name => '/?t=acme', literal => '/literal?t=x');
$t->state->order('tenant:acme', '3 0');
$t->state->order('api', '3 0');
seen();
$redis->stop;
wait_for { unavailable() } 15, 'redis unavailable';
lease_over();
is admitted('name'), 3, 'a name from variables: the lower order';
is admitted('literal'), 3, 'a literal name: the lower order';

$node->clear_logs;
$node->reload;
wait_for { unavailable() } 15, 'the new worker has no redis either';
lease_over();
is admitted('name'), 3, 'after a reload: a name from variables';
is admitted('literal'), 3, 'after a reload: a literal name';

# Redis is empty, and so without orders
$redis->start;
wait_for { $t->state->session_count == 1 } 15, 'redis available';
seen();
$node->clear_logs;
$redis->stop;
wait_for { unavailable() } 15, 'redis unavailable again';
$node->clear_logs;
$node->reload;
wait_for { unavailable() } 15, 'a new worker without redis';
lease_over();
is admitted('name'), 5, 'the order has ended: a name from variables';
is admitted('literal'), 5, 'the order has ended: a literal name';
$redis->start;

$t->done;

sub unavailable { return scalar $node->grep_log(qr/unavailable \(/) }

# Redis has granted a request of each name.
sub seen {
    for my $of (sort keys %path) {
        wait_for { $node->get($path{$of})->header('X-Dsem') eq 'PASSED' } 15,
            "$of granted";
    }
}

# Another name, of which nothing is known, is admitted after the lease only.
sub lease_over {
    wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';
}

# How many of five requests are.
sub admitted {
    my ($of) = @_;
    return $up->admitted(map { $node->begin("$path{$of}&hang=1") } 1 .. 5);
}
