#!/usr/bin/perl

# Redis is out of reach, or recovers: until the fence permits of a pool that
# come free serve the worker's next requests, each at its server, and are
# declared with those in use. The limit that these see is the sum of all servers.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<"EOF_CONF", REDIS => $proxy->address);
worker_processes 1;
dsem_reuse off;
dsem_redis_connect_timeout 500ms;
dsem_lease 60s;
dsem_status 503 error=500;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem_on_error reject;
        proxy_pass http://gpus;
        add_header X-Server "\$dsem_server \$upstream_addr";
        add_header X-Limit \$dsem_limit;
    }
}
EOF_CONF

sub running {
    my ($pattern, $name) = @_;
    eventually { join(' ', map { $_->now } @up) eq $pattern } $name;
}

my $address = $up[1]->address;
my @held = map { $node->begin('/?hang=1') } @up;
running('1 1', 'each server has a request');
# the second is at the second server
@held = reverse @held if $held[0]->nonce eq ($up[1]->order)[0];
$redis->all_beat(1);
$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';

# without Redis

$up[1]->release(1);
is $held[1]->wait->status, 200, 'a request has ended';
push @held, $node->begin('/?hang=1');
running('1 1', 'its permit serves the next one');
is $node->get('/')->status, 500, 'there is none for another';
$up[1]->release(1);
is $held[2]->wait->status, 200, 'that one has ended, too';

# Redis is back, and grants nothing yet

$t->state->set_shard(recover_until => 40_000 + $t->state->shard('clock'));
$proxy->refuse(0);
eventually { $node->grep_log(qr/available again/) } 'redis available again';
eventually { $t->state->held('gpus') == 2 } 'both permits are declared';
push @held, $node->begin('/?hang=1');
running('1 1', 'the free one serves a request at its server');
cmp_ok $t->state->shard('recover_until'), '>', $t->state->shard('clock'),
    'nothing was granted meanwhile';

# at the end it goes back

$t->state->set_shard(recover_until => 0);
my $waits = $node->begin('/');
eventually { $t->state->waiting('gpus') == 1 } 'a request waits';
$up[1]->release(1);
is $waits->wait->header('X-Server'), "$address $address",
    'it gets the permit that is released';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;
is $held[$_]->header('X-Server'), "$address $address",
    'served at the server of its permit' for 2, 3;
is $held[$_]->header('X-Limit'), 2, '$dsem_limit is the sum of all servers'
    for 2, 3;
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;
is $node->grep_log(qr/DSEM argument/), 0, 'counts by server added up';

$t->done;
