#!/usr/bin/perl

# A server that one node cannot reach is out of service for this node only: its
# requests wait for the other servers, those of the other node use all. Where a
# node reaches none, new requests are answered at once, and those that wait are
# served when a server is back.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1 .. 3;
my $FAILS = 3600;

# one that was down is tried again when the test moves the clock of the nodes
my $clock = Dsem::Clock->new($t);
my $servers = join ' ', map { "server $_ fail_timeout=$FAILS;" }
    map { $_->address } @up;
my ($one, $two) = $clock->fleet(2, <<"EOF_CONF");
worker_processes 2;
upstream pool {
    zone pool 64k;
    $servers
    dsem pool limit=1/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Node %%NODE%%;
    add_header X-Server "\$dsem_server" always;
    add_header X-Dsem "\$dsem_status,\$dsem_name,\$dsem_queue_position,\$dsem_limit,\$dsem_in_use,\$dsem_remaining" always;
    location / {
        proxy_pass http://pool;
    }
    location /behind {
        dsem front limit=3;
        proxy_pass http://pool;
    }
}
EOF_CONF
my ($node, $other) = map { $_->name } $one, $two;

# its server, if it is answered with this status
sub server {
    my ($request, $status) = @_;
    return $request->status == $status ? $request->header('X-Server')
        : 'status ' . $request->status;
}

# one server is down at one node

my $down = $up[0]->address;
$up[0]->refuse($node);
my $failed;
wait_for {
    my $request = $one->get('/');
    $failed = server($request, 502);
    $request->status != 200;
} 15, 'a try fails';
is $failed, $down, 'the first try fails, at the server that is down';
is scalar(grep { server($one->get('/'), 200) eq $down } 1 .. 12), 0,
    'later requests of the node are for the other servers';

my @held = map { $_->begin('/?hang=1') } $one, $one;
wait_for { $up[1]->now + $up[2]->now == 2 } 15, 'those are taken';
# more than Redis looks at in one call
my @wait = map {
    my $request = $one->begin('/');
    wait_for { $t->state->waiting('pool') == $_ } 15, "$_ wait";
    $request;
} 1 .. 70;
is server($two->get('/'), 200), $down,
    'the other node passes them, to the server that only it can use';
is scalar(grep { $_->done } @wait), 0, 'they still wait';
$up[1]->release(1);
is scalar(grep { server($_->wait, 200) ne $up[1]->address } @wait), 0,
    'and have the next ones of their own';
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;

$up[0]->refuse($node, 0);
is scalar(grep { server($one->get('/'), 200) eq $down } 1 .. 12), 0,
    'not as long as "fail_timeout" says';
$clock->step($FAILS + 1);
eventually { server($one->get('/'), 200) eq $down }
    'a node uses a server again that it can reach';

# all are down at one node

@held = map { $one->begin('/?hang=1') } @up;
wait_for { 3 == grep { $_->now == 1 } @up } 15, 'all are taken';
my $waits = $one->begin('/');
wait_for { $t->state->waiting('pool') == 1 } 15, 'a request waits';
$_->refuse($node) for @up;
is server($_->wait, 502), $_->header('X-Server'), 'running request failed'
    for @held;
ok !$waits->done, 'the waiting one still waits';
my $before = now;
my $request = $one->get('/?late=1');
is $request->status, 502, 'a new one is answered';
cmp_ok $request->took, '<', 10, 'and does not wait';
is $request->header('X-Dsem'), 'ERROR,pool,,,,', 'its figures are unknown';
is $one->get('/behind')->header('X-Dsem'), 'ERROR,pool,,,,',
    'and not those of another semaphore';
is $two->get('/')->status, 200, 'the other node uses them';
$_->refuse($node, 0) for @up;
ok !$waits->done, 'it waits until "fail_timeout" has passed';
$clock->step($FAILS + 1);
is $waits->wait->status, 200, 'served when one is back';
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;

$t->done;
