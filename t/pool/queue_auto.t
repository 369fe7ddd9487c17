#!/usr/bin/perl

# "queue=auto" of a pool: as many requests may wait as all servers together
# serve in time, also at a node that has no permit of the pool at the moment. With
# "resolve" that one does not know the servers, and lets all requests wait.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map {
    'server ' . $_->address . ' max_conns=1;'
} @up;

my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=max_conns queue=%%QUEUE%%;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / { proxy_pass http://gpus; }
}
EOF_CONF
my $one = $t->node('one', $conf, QUEUE => 'auto timeout=1s');
my $two = $t->node('two', $conf, QUEUE => '100 timeout=60s');

# Permits are held for 400 ms or more: two servers serve five requests in 1 s at
# most, and that less two roots of it is one.

$one->get('/?t=400') for 1 .. 3;
wait_for { $t->state->counts('gpus') eq '0 0' } 15, 'nothing is out';

my @held = map { $two->begin('/?hang=1') } @up;
wait_for { "@{[ map { $_->now } @up ]}" eq '1 1' } 15, 'both are taken';
my $waits = $two->begin('/');
wait_for { $t->state->counts('gpus') eq '2 1' } 15, 'one waits';
my $refused = $one->get('/');
is $refused->status, 503, 'no second one';
is $one->logged($refused)->{dsem_status}, 'REJECTED', 'at once';
$_->release_all for @up;
is $_->wait->status, 200, 'served' for @held, $waits;

# servers that DNS has brought are not known without an account

resolved() if nginx_since('1.27.3');

$t->done;

sub resolved {
    my $port = $t->free_port;
    @up = map { $t->upstream(host => "127.0.0.$_", port => $port) } 1, 2;
    $t->dns('gpus.dsem.test' => [ map { $_->address =~ s/:.*//r } @up ]);
    $conf =~ s/^    \Q$servers\E/    zone dns 256k;
    server gpus.dsem.test:$port resolve;/m;
    $conf =~ s{dsem gpus limit=max_conns}{dsem dns limit=1/server};
    $conf =~ s/^upstream/resolver %%DNS%% ipv6=off;\nupstream/m;
    $one = $t->node('three', $conf, QUEUE => 'auto timeout=60s');
    $two = $t->node('four', $conf, QUEUE => '200 timeout=60s');
    for my $node ($one, $two) {
        eventually { $node->get('/?t=600')->status == 200 } 'DNS is read';
    }

    # one server serves 100 in 60 s at most, and that less two roots is 80
    wait_for { $t->state->counts('dns') eq '0 0' } 15, 'nothing is out';
    @held = map { $two->begin('/?hang=1') } @up;
    wait_for { "@{[ map { $_->now } @up ]}" eq '1 1' } 15, 'both are taken';
    push @held, map { $two->begin('/') } 1 .. 90;
    wait_for { $t->state->counts('dns') eq '2 90' } 15, 'many wait';
    push @held, $one->begin('/');
    eventually { $t->state->counts('dns') eq '2 91' } 'one more waits';
    $_->release_all for @up;
    is scalar(grep { $_->wait->status != 200 } @held), 0, 'all are served';
    return;
}
