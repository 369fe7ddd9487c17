#!/usr/bin/perl

# Redis loses its state, and the first worker to declare has seen a
# lower limit than the one that limit=auto has found since: permits of others
# below that are no overage.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 1m;
dsem_reuse off;
location /lost {
    dsem api limit=auto max=100;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

$redis->all_beat(2);
wait_for { $t->state->lowest_limit('api') == 10 } 15, 'a limit';
my @long = map { $two->begin('/lost?hang=1', 'X-Nonce' => $_) } 1 .. 3;
wait_for { $up->now == 3 } 15, 'a few requests';
$t->state->set_found('api', 30);
push @long, map { $one->begin('/lost?hang=1', 'X-Nonce' => $_) } 4 .. 28;
wait_for { $up->now == 28 } 15, 'more than the other worker has seen';

# one node cannot declare before the other has
$one->freeze;
$redis->cmd('FLUSHALL');
wait_for { held() == 3 } 15, 'the first has declared';
$one->thaw;
wait_for { held() == 28 && !$redis->recovering } 30, 'so has the other one';
is_deeply [ map { scalar $_->grep_log(qr/overage/) } $one, $two ], [ 0, 0 ],
    'no overage';

$up->release_all;
is $_->wait->status, 200, 'request served' for @long;

$t->done;

sub held { return $t->state->figure('api', 'held') // 0 }
