#!/usr/bin/perl

# The limit of each server of a pool is the lowest that a node has in its
# configuration, or that of an order, which may be higher; an order of 0 rejects,
# and a pause makes requests wait beside free servers.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;

my $conf = <<"EOF_CONF";
worker_processes 1;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=2/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / { proxy_pass http://gpus; }
    location /dsem/ { dsem_api write=on; }
}
EOF_CONF
my $one = $t->node('one', $conf);
my $two = $t->node('two', $conf =~ s{2/server}{1/server}r);
wait_for {
    $t->state->subscribed == 2 && $t->state->lowest_limit('gpus') == 1
} 15, 'both nodes registered';

sub counts { return $t->state->counts('gpus') }
sub running { return join ' ', map { $_->now } @up }
sub started { return join ' ', map { $_->started } @up }

sub order {
    my ($body, $name) = @_;
    is $two->get('/dsem/semaphores/gpus', -method => 'PATCH', -body => $body,
        'Content-Type' => 'application/json')->status, 200, $name;
}

my @held = map { $one->begin('/?hang=1') } 1 .. 4;
eventually { counts() eq '2 2' } 'two of four wait';
eventually { running() eq '1 1' } 'at each server one, as the other node wants';

order('{"limit":2}', 'ordered: 2');
eventually { running() eq '2 2' } 'two at each server';
is counts(), '4 0', 'none waits';

my @more = map { $_->begin('/?hang=1') } $one, $two;
eventually { counts() eq '4 2' } 'two more wait';
order('{"limit":3}', 'ordered: 3, more than any node wants');
eventually { running() eq '3 3' } 'three at each server';

order('{"limit":0}', 'ordered: 0');
is $_->get('/')->status, 503, $_->name . ': rejected' for $one, $two;
is running(), '3 3', 'what runs goes on';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held, @more;
eventually { counts() eq '0 0' } 'all permits are free';

order('{"limit":null,"paused":true}', 'paused');
my @wait = map { $_->begin('/?hang=1') } $one, $two;
eventually { counts() eq '0 2' } 'requests wait';
$redis->beats(4, 'two heartbeats of each worker');
is started(), '3 3', 'none is at a server';

order('{"paused":false}', 'goes on');
eventually { running() eq '1 1' } 'served, at each server one';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @wait;
is $_->peak, 3, 'limit of a server reached, not exceeded' for @up;

$t->done;
