#!/usr/bin/perl

# Messages that dsem has not sent, although they have the seal of the session: of
# another epoch, of an unknown ticket, or malformed. No request is admitted by
# them, and no worker is disturbed.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 2s;
location /waits {
    dsem api limit=1 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @requests = $node->begin('/waits?hang=1');
eventually { $up->now == 1 } 'one request running';
push @requests, $node->begin('/waits?hang=1');
eventually { $t->state->waiting('api') == 1 } 'one request queued';
wait_for { $t->state->subscribed == 1 } 15, 'the subscription';

my ($session) = $t->state->sessions;
my $entry = $t->state->entry($session);
my $epoch = $entry->{epoch};
my $tickets = join ' ', 1 .. 20;
my @messages = (
    (map { "grant api $_ 1 1 $tickets" } 0, $epoch + 1, -1, 'x', ''),
    "grant api $epoch 1 1", "grant api $epoch", 'grant api', 'grant ', 'grant',
    "grant api $epoch 1 1 100 101 18446744073709551617 -2 x 2.0",
    "granted api $epoch 1 1 $tickets", "Grant api $epoch 1 1 $tickets",
    " grant api $epoch 1 1 $tickets", "grant  api $epoch 1 1 $tickets",
    'beat', 'beat x', '', ' ', "\0", "\r\n", 'x' x 1_000_000,
    'grant ' . 'x' x 100_000, 'grant api 1 1 1 ' . '9' x 10_000,
);

for my $message (@messages) {
    is $redis->cmd('PUBLISH', $t->state->channel($session),
        "$entry->{seal} $message"), 1,
        'messages delivered';
}

# messages come in order: the worker has read them when it has read this one
my $beats = $redis->calls->{publish};
eventually { $redis->calls->{publish} > $beats } 'a heartbeat later';
is $up->now, 1, 'no request admitted';
is $redis->cmd('PUBSUB', 'NUMSUB', $t->state->channel($session))->[1], 1,
    'subscription kept';
is $t->state->entry($session)->{epoch}, $epoch, 'same epoch';

$up->release_all;
is $requests[0]->wait->status, 200, 'first request served';
eventually { $up->now == 1 } 'second request admitted in turn';
$up->release_all;
is $requests[1]->wait->status, 200, 'second request served';
is $up->peak, 1, 'limit never exceeded';

$t->done;
