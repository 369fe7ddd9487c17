#!/usr/bin/perl

# The API and the metrics of a pool: its limit is the sum over the servers that
# can be used, and what is in use at others, and each server has figures of its
# own, at every node, also one without the pool. An order is for each server.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my @LIMITS = (2, 2, 1);
my ($YES, $NO) = (Cpanel::JSON::XS::true, Cpanel::JSON::XS::false);

my $t = Dsem::Test->new;
$t->redis;
my $clock = Dsem::Clock->new($t, monotonic => 1);
# in the order of the names
my @up = sort { $a->address cmp $b->address } map { $t->upstream } @LIMITS;
my @addresses = map { $_->address } @up;
my $servers = join ' ', map {
    "server $addresses[$_] max_conns=$LIMITS[$_] fail_timeout=3600;"
} 0 .. $#up;

my $api = 'location /dsem/ { dsem_api write=on; }';
my $node = $clock->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
dsem_redis_timeout 10m;
dsem_lease 10m;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=2/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_read_timeout 1h;
    proxy_set_header X-Node a;
    proxy_set_header X-Sem \$dsem_server;
    location / {
        proxy_pass http://gpus;
    }
    location /other {
        proxy_set_header X-Node other;
        proxy_pass http://gpus;
    }
    $api
}
EOF_CONF
my $other = $clock->node('b', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
dsem_redis_timeout 10m;
dsem_lease 10m;
location / {
    dsem plain limit=2;
    empty_gif;
}
$api
EOF_CONF

# Waits for what a node shows of the pool: permits in use, limit, configured
# limit; those of one server; then of each server what is in use, its limit, and
# whether it can be used. A worker reads the figures of the fleet once a second,
# by a clock that the test moves.
sub shows {
    my ($of, $name, $figures, $each, @servers) = @_;
    my @seen;
    eventually {
        $clock->step(1.1);
        my $all = decode_json($of->get('/dsem/semaphores')->body);
        my ($pool) = grep { $_->{name} eq 'gpus' } @{ $all->{semaphores} };
        @seen = (words($pool, qw/in_use limit configured/),
            words($pool->{per_server}, qw/limit configured/),
            map { words($_, qw/server in_use limit usable/) }
                @{ $pool->{servers} // [] });
        "@seen" eq join ' ', $figures, $each,
            map { "$addresses[$_] $servers[$_]" } 0 .. $#servers;
    } $name or diag explain \@seen;
}

sub words {
    my ($of, @keys) = @_;
    return join ' ', map { $of->{$_} // 'null' } @keys;
}

# samples of a node that have these words
sub samples {
    my ($of, $words) = @_;
    return { $of->get('/dsem/metrics')->body
        =~ /^(dsem_\w*$words)\{semaphore="gpus"[^}]*\} (\d+)$/mg };
}

wait_for { $t->state->session_count == 2 && $t->state->subscribed == 2 } 15,
    'sessions';
shows($node, 'at rest', '0 5 5', '2 2', "0 2 $YES", "0 2 $YES", "0 1 $YES");

my @held = map { $node->begin('/?hang=1') } 1 .. 4;
my @now;

# Waits until this many requests are at the servers.
sub running {
    my ($n) = @_;
    wait_for {
        @now = map { $_->now } @up;
        $now[0] + $now[1] + $now[2] == $n;
    } 30, "$n at the servers";
}

running(4);
is "@now[0, 1, 2]" =~ /^[12] [12] 1$/, 1, 'by the largest free part';
for ($node, $other) {
    shows($_, $_->name . ': in use', '4 5 5', '2 2',
        map { "$now[$_] $LIMITS[$_] $YES" } 0 .. 2);
    is_deeply samples($_, 'limit_permits'), { dsem_limit_permits => 5,
        dsem_configured_limit_permits => 5,
        dsem_fleet_server_limit_permits => 1 }, 'limits in the metrics';
    my %of = $_->get('/dsem/metrics')->body =~
        /^dsem_fleet_server_permits\{semaphore="gpus",server="(.*?)"\} (\d+)$/mg;
    is_deeply \%of, { map { ($addresses[$_] => $now[$_]) } 0 .. 2 },
        'permits of each server in the metrics';
}

# of servers that are not read it is unknown whether they can be used; a node
# with the pool knows whether it can use them

my $key = $t->state->semaphore_key('gpus');
my ($field) = grep { /^list:/ } @{ $t->state->cmd('HKEYS', $key) };
my $list = $t->state->cmd('HGET', $key, $field);
# of a list with a number that is none the rest is not read
$t->state->cmd('HSET', $key, $field, $list =~ s/ .*?=\K/99999999999/r);
my ($read, @others) = map { "$now[$_] $LIMITS[$_]" } 0 .. 2;
shows($node, 'the rest as the node has it', '4 5 5', '2 2',
    map { "$_ $YES" } $read, @others);
shows($other, 'the rest unknown', '4 6 6', '2 2', "$read $YES",
    map { "$now[$_] 2 null" } 1, 2);
$t->state->order('gpus', '5 0');
eventually {
    $clock->step(1.1);
    my $all = decode_json($other->get('/dsem/semaphores/gpus')->body);
    ($all->{semaphore}{per_server}{limit} // 0) == 5;
} 'the rest may have more than the order';
$t->state->drop_order('gpus');
$t->state->cmd('HSET', $key, $field, $list);

# an order is for each server

my $patched = $other->get('/dsem/semaphores/gpus', -method => 'PATCH',
    -body => '{"limit":1}', 'Content-Type' => 'application/json');
is $patched->status, 200, 'ordered';
is decode_json($patched->body)->{limit}, 1, 'the answer has that of a server';
# else nginx waits for more of its body, in vain
$patched->close;
shows($_, $_->name . ': ordered', '4 3 5', '1 2',
    map { "$now[$_] 1 $YES" } 0 .. 2) for $node, $other;
$other->get('/dsem/semaphores/gpus', -method => 'PATCH',
    -body => '{"limit":null}', 'Content-Type' => 'application/json');
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;

# a server that has failed, first with a request that goes on: its permit is one
# more of the pool, which is full

@held = map { $node->begin('/other?hang=1') } 1 .. 5;
running(5);
$up[0]->release(1);
running(4);
is "@now", '1 2 1', 'the first one has a free permit';
$up[0]->refuse('a');
wait_for { $node->get('/')->status == 502 } 15, 'a try fails';
shows($node, 'in use and failed', '4 4 4', '2 2', "1 2 $NO", "2 2 $YES",
    "1 1 $YES");
$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;
shows($node, 'one has failed', '0 3 3', '2 2', "0 2 $NO", "0 2 $YES",
    "0 1 $YES");
my $last = $node->begin('/?hang=1');
running(1);
shows($node, 'and is not used', '1 3 3', '2 2', "0 2 $NO",
    "$now[1] 2 $YES", "$now[2] 1 $YES");
$_->release_all for @up;
is $last->wait->status, 200, 'request ended';

my $plain = decode_json($other->get('/dsem/semaphores/plain')->body);
is_deeply [ @{ $plain->{semaphore} }{qw/limit per_server servers/} ],
    [ 2, undef, undef ], 'a semaphore that is no pool has none';

$t->done;
