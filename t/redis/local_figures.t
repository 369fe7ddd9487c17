#!/usr/bin/perl

# Until the lease of an outage ends, $dsem_limit is what the worker had, not what
# the fleet may have: one that reads $dsem_remaining sends no more than that.

use lib 't/lib';
use Dsem::Test;

my $OWN = 6;

my $t = Dsem::Test->new(lease => 20);
my $redis = $t->redis;
my $up = $t->upstream;

my ($has, $has_none) = $t->fleet(2, <<'EOF_CONF');
dsem_redis_connect_timeout 200ms;
dsem_lease 20s;
dsem_reuse 60s;
add_header X-Dsem "$dsem_status $dsem_limit $dsem_in_use $dsem_remaining"
    always;
location / {
    dsem api limit=20 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /unqueued {
    dsem other limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
location /reject {
    dsem api limit=20 queue=10 timeout=60s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
$redis->all_beat(2);

my @burst = map { $has->begin('/?hang=1') } 1 .. $OWN;
eventually { $up->now == $OWN } 'permits in use';
$up->release_all;
is scalar(grep { $_->wait->status != 200 } @burst), 0, 'served';
eventually { $t->state->held('api') == $OWN } 'permits idle';

$redis->kill;
for my $node ($has, $has_none) {
    wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
}
for my $path ('/', '/reject') {
    is $has->get($path)->header('X-Dsem'), "PASSED $OWN 1 " . ($OWN - 1),
        "$path: its own";
}
is $has_none->get('/unqueued')->header('X-Dsem'), 'REJECTED 0 0 0',
    'it has none';

$t->done;
