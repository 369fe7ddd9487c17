#!/usr/bin/perl

# The message about a grant is lost, and no server is usable at the node when its
# worker compares counts: Redis has no list of which it could name the server. The
# worker declares anew, and its request waits again; Redis stays available.

use lib 't/lib';
use Dsem::Test;

my $GRANT = '^\*3\r\n\$7\r\nmessage\r\n(?s:.*)\r\n[0-9a-f]{16} grant ';

my $t = Dsem::Test->new(lease => 600);
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { "server $_ fail_timeout=1h;" }
    map { $_->address } @up;
my $proxy = $t->proxy($redis->address);

my $conf = <<"EOF_CONF";
worker_processes 1;
# nothing of the node gets to Redis for a while
dsem_redis_timeout 1m;
dsem_lease 10m;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=2/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / { proxy_pass http://gpus; }
}
EOF_CONF
my $node = $t->node('one', $conf, REDIS => $proxy->address);
my $other = $t->node('two', $conf);

sub counts { return $t->state->counts('gpus') }
sub started { return join ' ', map { $_->started } @up }

# one request of the node at each server, beside one of the other node

my @held = map { $other->begin('/?hang=1') } 1 .. 4;
eventually { started() eq '2 2' } 'all permits at the other node';
my @fail = map { $node->begin('/?hang=1&rst=1') } 1, 2;
eventually { counts() eq '4 2' } 'two requests wait';
$_->release(1) for @up;
eventually { started() eq '3 3' } 'one at each server';
my $waits = $node->begin('/');
eventually { counts() eq '4 1' } 'another one waits';

# it is granted without a message, and then both servers fail

$proxy->swallow(match => $GRANT);
$proxy->freeze('c2s');
$up[0]->release(1);
eventually { counts() eq '4 0' } 'granted';
for my $request (@fail) {
    $_->release_nonce($request->nonce) for @up;
    is $request->wait->status, 502, 'its server has failed';
}
$proxy->thaw('c2s');
eventually { counts() eq '1 1' } 'it waits again';
is $node->get('/')->status, 502, 'no server is usable';
is scalar($node->grep_log(qr/connection to redis \S+ lost/)), 0,
    'Redis was available';

$waits->abort;
eventually { counts() eq '1 0' } 'its client has left';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;

$t->done;
