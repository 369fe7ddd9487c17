#!/usr/bin/perl

# Messages over TLS: a permit that another node releases reaches a waiting
# request at once, not with the next check. Both connections of a worker use
# TLS.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $ROUNDS = 20;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis;
my $up = $t->upstream;

my ($holds, $waits) = $t->fleet(2, <<'EOF_CONF', TLS => $tls->to($redis));
worker_processes 1;
dsem_redis %%TLS%%;
location / {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

eventually { $redis->cmd(qw(CLIENT LIST TYPE pubsub)) =~ /sub=1.*sub=1/s }
    'both subscribed';
my $port = $redis->port;
unlike $redis->cmd(qw(CLIENT LIST)), qr/laddr=127.0.0.1:$port /,
    'no connection in plain';

my $began = now;
for my $round (1 .. $ROUNDS) {
    my $holder = $holds->begin('/?hang=1');
    wait_for { $up->now == 1 } 15, 'permit out';
    my $waiting = $waits->begin('/?t=1');
    wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
    $up->release(1);
    is $_->wait->status, 200, "$round: served" for $holder, $waiting;
}
# by checks it would take a second each
cmp_ok took($began), '<', $ROUNDS * 0.5, 'granted by messages';

$t->done;
