#!/usr/bin/perl

# A reply is late, and by the one before a server of the pool has one permit
# more in use than its lowered limit. The reply does not name it: of the permits
# that come free at each server one goes back, and the others serve requests
# that wait here.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<"EOF_CONF", REDIS => $proxy->address);
worker_processes 1;
dsem_reuse off;
dsem_redis_timeout 60s;
dsem_lease 60s;
upstream gpus {
    $servers
    dsem gpus limit=3/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
    }
    location /other {
        dsem other limit=1;
        empty_gif;
    }
}
EOF_CONF

sub running {
    my ($pattern, $name) = @_;
    eventually { join(' ', map { $_->now } @up) eq $pattern } $name
        or die;
}

my $state = $t->state;
my @all;
for my $n (1 .. 6) {
    push @all, $node->begin('/?hang=1');
    wait_for { $up[0]->now + $up[1]->now == $n } 15, "$n at the backends";
}
running('3 3', 'all permits in use');
$state->order('gpus', '- 0 ' . $up[0]->address . '=2');
for my $n (1, 2) {
    push @all, $node->begin('/?hang=1');
    wait_for { $state->waiting('gpus') == $n } 15, "$n wait";
}

$clock->stop;
# comes behind the replies to them, and to each heartbeat
is $node->get('/other')->status, 200, 'no reply awaited';
$proxy->freeze('s2c');
push @all, $node->begin('/?hang=1');
wait_for { $state->waiting('gpus') == 3 } 15, 'another one asks';
$clock->step(10);
$up[1]->release(2);
wait_for { 2 == grep { $_->done } @all } 15, 'two end';
running('3 2', 'one serves another request, one does not');
$up[0]->release(1);
wait_for { 3 == grep { $_->done } @all } 15, 'one ends at the other server';
running('2 2', 'and its permit serves nobody');

$proxy->thaw('s2c');
$clock->go;
running('2 3', 'each has its limit in use');
wait_for { $_->release_all for @up; 9 == grep { $_->done } @all } 15,
    'all end';
is $_->status, 200, 'served' for @all;
is $up[0]->peak, 3, 'the limits were kept';
is $up[1]->peak, 3, 'of both servers';

$t->done;
