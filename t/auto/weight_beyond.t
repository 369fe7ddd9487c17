#!/usr/bin/perl

# A request that takes a name twice has the larger weight, which may be above all
# that limit=auto finds, and an order may let it pass: then its sample has the
# largest weight that a sample may have, and the connection stays.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
$t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
location / {
    dsem api limit=auto max=200;
    dsem $arg_name limit=$arg_weight weight=$arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

wait_for { $t->state->session_count == 1 && $t->state->subscribed } 15,
    'the session';
is $node->get('/dsem/semaphores/api', -method => 'PATCH',
    'Content-Type' => 'application/json', -body => '{"limit": 1000000000}')
    ->status, 200, 'an order';
my $accepted = $proxy->accepted;

sub sampled { $redis->cmd('EXISTS', $t->state->auto_key('api')) }

for my $weight (1, 1_000_001, 1_000_000_000) {
    $redis->cmd('DEL', $t->state->auto_key('api'));
    is $node->get("/?t=20&name=api&weight=$weight")->status, 200, 'served';
    wait_for { sampled() || $proxy->accepted > $accepted } 15, 'a sample';
    is $proxy->accepted, $accepted, "weight $weight: the connection stays";
}
is $node->grep_log(qr/unavailable/), 0, 'no outage';

$t->done;
