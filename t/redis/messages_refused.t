#!/usr/bin/perl

# Redis rejects the subscription for another cause than a permission, while it
# accepts the session: it has no room for one more connection. Requests are
# served, waiting ones late: the log has the cause once, as an error, after some
# heartbeats. When messages have come it is logged again.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
location / {
    dsem api limit=1 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub lines { return scalar $node->grep_log($_[0] // qr/sends no messages/) }

# only of the subscription
sub cut { $redis->cmd(qw(CLIENT KILL TYPE pubsub)) }

eventually { $t->state->subscribed == 1 } 'subscribed';
cut();
eventually { $t->state->subscribed == 1 } 'subscribed again';
$redis->beats(6);
is lines(), 0, 'one connection lost: nothing logged';

for my $round (1, 2) {
    $redis->cmd(qw(CONFIG SET maxclients 1));
    cut();
    eventually { lines() == $round } 'cause logged';
    is lines(qr/\[error\].*dsem:\ redis\ \S+\ sends\ no\ messages
        \ \(ERR\ max\ number\ of\ clients\ [^)]*\)
        ,\ waiting\ requests\ are\ served\ late/x), $round,
        'as an error, with what Redis said';
    $redis->beats(10);
    is lines(), $round, 'once';

    my $running = $node->begin('/?hang=1');
    wait_for { $up->now == 1 } 15, 'the permit';
    my $waiting = $node->begin('/?t=1');
    wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
    $up->release(1);
    is $_->wait->status, 200, 'request served' for $running, $waiting;

    $redis->cmd(qw(CONFIG SET maxclients 1000));
    eventually { $t->state->subscribed == 1 } 'subscribed when there is room';
    $redis->beats(3);
    is lines(), $round, 'nothing more logged';
}
is lines(qr/unavailable \(/), 0, 'redis stays available';

$t->done;
