#!/usr/bin/perl

# In one turn of the event loop a request of a dry run is rejected, and its
# response ends: it is one that would have been rejected.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 60s;
dsem_reuse off;
location / {
    dsem one limit=1 queue=0;
    proxy_pass http://%%UPSTREAM%%;
}
location /tried {
    dsem one limit=1 queue=0;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
my $a = $t->node('a', $conf, REDIS => $proxy->address);
my $b = $t->node('b', $conf);
my $holder = $b->begin('/?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now == 1 } 15, 'the holder';

$proxy->freeze('s2c');
my $tried = $a->begin('/tried?hang=1', 'X-Nonce' => 'tried');
wait_for { $up->now == 2 } 15, 'the request at the backend';
my $passed = $proxy->bytes->{s2c};
$a->freeze;
$proxy->thaw('s2c');
wait_for { $proxy->bytes->{s2c} > $passed } 15, 'the reply';
my $served = $up->served;
$up->release_nonce('tried');
wait_for { $up->served > $served } 15, 'the response';
$a->thaw;

is $tried->wait->status, 200, 'served';
is $a->logged($tried)->{dsem_status}, 'REJECTED_DRY_RUN', 'the variable';
is scalar($a->grep_log(qr/dsem rejected, dry run/)), 1, 'the log';
like $a->get('/dsem/metrics')->body, qr/"rejected_dry_run"\} 1$/m, 'counted';

$up->release_all;
$holder->wait;
$t->done;
