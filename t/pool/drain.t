#!/usr/bin/perl

# An order for one server of a pool, from a node that does not have the pool: its
# requests run out, no permit of it is granted in the whole fleet, and it is used
# again when the order ends. Orders for all servers leave it alone.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my @up = sort { $a->address cmp $b->address } map { $t->upstream } 1, 2;
my @addresses = map { $_->address } @up;
my $servers = join ' ', map { "server $_;" } @addresses;

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
my @nodes = map { $clock->node($_, $conf) } 'one', 'two';
my $other = $t->node('other', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
location /plain { dsem plain limit=1; proxy_pass http://%%UPSTREAM%%; }
location /dsem/ { dsem_api write=on; }
EOF_CONF
wait_for { $t->state->subscribed == 3 } 15, 'all nodes registered';

sub counts { return $t->state->counts('gpus') }
sub running { return join ' ', map { $_->now } @up }
sub started { return join ' ', map { $_->started } @up }

sub patch {
    my ($node, $path, $body) = @_;
    my $answer = $node->get("/dsem/semaphores/$path", -method => 'PATCH',
        -body => $body, 'Content-Type' => 'application/json');
    my $read = decode_json($answer->body);
    # else nginx waits for more of its body, in vain
    $answer->close;
    return $answer->status, $read;
}

# What a node has of the first server: its limit, and that of the order; and the
# limit of the pool.
sub shows {
    my ($node, $expected, $name) = @_;
    my $first;
    eventually {
        my $all = decode_json($node->get('/dsem/semaphores')->body);
        my ($pool) = grep { $_->{name} eq 'gpus' } @{ $all->{semaphores} };
        ($first) = grep { $_->{server} eq $addresses[0] }
            @{ $pool->{servers} // [] };
        $first && $expected eq join ' ', map { $_ // 'null' }
            @$first{qw/limit ordered/}, $pool->{limit};
    } $name or diag explain $first;
}

my @held = map { $_->begin('/?hang=1') } (@nodes) x 2;
eventually { running() eq '2 2' } 'two at each server';
my @wait = map { $_->begin('/?hang=1') } (@nodes) x 2;
eventually { counts() eq '4 4' } 'and four wait';

my ($status, $answer) = patch($other, "gpus/servers/$addresses[0]",
    '{"limit":0}');
is $status, 200, 'drained';
is_deeply $answer, { name => 'gpus', server => $addresses[0], limit => 0,
    configured => 2, ordered => 0, in_use => 2, waiting => 4 }, 'the answer';
is scalar(() = $other->grep_log(qr/order\ for\ server\ \Q$addresses[0]\E\ of
    \ semaphore\ "gpus":\ limit\ none\ ->\ 0,\ by\ \S+\ \(user\ "-"\),\ limit
    \ in\ force\ 0/x)), 1, 'logged';
# of the pool what is free is as much as of the other server
shows($_, '0 0 4', $_->name . ' shows it') for $nodes[0], $other;
is running(), '2 2', 'what runs goes on';

# a worker serves its own next request while a reply is late: none ever is
$clock->stop;
is counts(), '4 4', 'four held, four wait';
$up[0]->release(2);
eventually { counts() eq '2 4' } 'its permits are free';
$clock->go;
shows($nodes[0], '0 0 2', 'no more of the pool');
$redis->beats(6, 'two heartbeats of each worker');
is started(), '2 2', 'nothing gets them';
$up[1]->release(1);
eventually { started() eq '2 3' } 'the other server goes on';

# that of all servers is another one

($status) = patch($nodes[0], 'gpus', '{"limit":3}');
is $status, 200, 'ordered: 3';
eventually { running() eq '0 3' } 'for the other server';
($status, $answer) = patch($other, "gpus/servers/$addresses[1]",
    '{"limit":null}');
is_deeply [ @$answer{qw/limit configured/} ], [ 3, 2 ],
    'more than is configured is in force';
($status) = patch($nodes[0], 'gpus', '{"limit":null}');
is $status, 200, 'and ended';
$up[1]->release(3);
eventually { running() eq '0 2' } 'the last two';

# at rest it is kept

$up[1]->release(2);
is $_->wait->status, 200, 'request ended' for @held, @wait;
eventually { counts() eq '0 0' } 'the pool is at rest';
shows($nodes[1], '0 0 2', 'shown at rest');
my $next = $nodes[1]->begin('/?hang=1');
eventually { running() eq '0 1' } 'the other server';
my $last = $nodes[0]->begin('/?hang=1');
eventually { running() eq '0 2' } 'twice';
my $back = $nodes[0]->begin('/?hang=1');
eventually { counts() eq '2 1' } 'the third waits';

($status, $answer) = patch($nodes[1],
    'gpus/servers/' . $addresses[0] =~ s/:/%3A/r, '{"limit":null}');
is_deeply [ $status, @$answer{qw/limit configured ordered/} ],
    [ 200, 2, 2, undef ], 'put back';
eventually { running() eq '1 2' } 'and used at once';
shows($nodes[0], '2 null 4', 'shown');
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for $next, $last, $back;
is join(' ', map { $_->peak } @up), '2 3', 'limits in force not exceeded';

# at rest one that is above what is configured

eventually { counts() eq '0 0' } 'at rest again';
is +(patch($nodes[0], 'gpus', '{"limit":3}'))[0], 200, 'ordered at rest: 3';
($status, $answer) = patch($nodes[0], "gpus/servers/$addresses[0]",
    '{"limit":null}');
is_deeply [ @$answer{qw/limit configured/} ], [ 3, 2 ], 'in force at rest';
shows($nodes[0], '3 null 6', 'shown at rest');
is +(patch($nodes[0], 'gpus', '{"limit":null}'))[0], 200, 'ended at rest';
shows($nodes[0], '2 null 4', 'and shown');

# without any server requests wait

for my $limit (0, 'null') {
    is +(patch($other, "gpus/servers/$_", qq({"limit":$limit})))[0], 200,
        "$_: $limit" for @addresses;
    next if $limit;
    $last = $nodes[0]->begin('/?hang=1');
    eventually { counts() eq '0 1' } 'it waits';
}
eventually { $up[0]->now + $up[1]->now == 1 } 'served then';
$_->release_all for @up;
is $last->wait->status, 200, 'request ended';

# what is refused

is $nodes[0]->get('/dsem/semaphores/gpus/servers/x')->status, 405, 'no GET';
my $none = $nodes[0]->get('/dsem/semaphores/plain/servers/x');
is $none->status, 404, 'nor of what is no pool';
is decode_json($none->body)->{error}, '"plain" is no pool that this node knows; '
    . '"/servers/" in the name of a semaphore is to be encoded', 'said';
is +(patch($other, 'plain/servers/x', '{"limit":0}'))[0], 404,
    'no pool, at rest';
is +(patch($other, 'plain/servers/x', '{"limit":null}'))[0], 200,
    'an order that Redis may have ends';
my $held = $other->begin('/plain?hang=1');
wait_for { $up[1]->now == 1 } 15, 'a permit of no pool';
for (
    [ 400, 'nothing to change', 'gpus/servers/x', '{}' ],
    [ 400, 'a pause', 'gpus/servers/x', '{"paused":true}' ],
    [ 404, 'no pool', 'plain/servers/x', '{"limit":0}' ],
) {
    my ($expected, $name, @how) = @$_;
    ($status, $answer) = patch($other, @how);
    is $status, $expected, $name;
    like $answer->{error}, qr/\w/, "$name: said";
}
($status, $answer) = patch($nodes[0], 'gpus/servers/x', '{"limit":1}');
is_deeply [ $status, @$answer{qw/limit configured ordered/} ],
    [ 200, 1, undef, 1 ], 'a server that no node has';
$up[1]->release_all;
$_->wait for $held;

$t->done;
