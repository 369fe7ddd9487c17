#!/usr/bin/perl

# dsem_reuse with a distant Redis: permits released during a round trip stay
# idle in the worker. Otherwise each of these permits would be missing for the
# next request, which would ask Redis, and no permit would be reused under
# load.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream(service => 0.02);

my $node = $t->node('a', <<'EOF_CONF', PROXY => $proxy->address);
worker_processes 1;
worker_connections 4096;
dsem_redis %%PROXY%%;
location / {
    dsem api limit=1000 queue=100;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/')->status, 200, 'redis available';
$proxy->delay(0.003);

# requests come at their own pace, whatever the responses
for my $round (1 .. 2) {
    my $before = $redis->calls->{evalsha};
    my $result = $t->load(urls => [$node->url('/')], rate => 300,
        requests => 400);
    my $served = $result->{statuses}{200};
    my $calls = $redis->calls->{evalsha} - $before;
    cmp_ok $served, '>', 300, "round $round: requests served";
    is_deeply [keys %{ $result->{statuses} }], [200], 'no request refused';
    cmp_ok $calls / $served, '<', 0.3, 'few commands sent'
        or diag "$calls commands for $served requests";
}

$t->done;
