#!/usr/bin/perl

# Redis replies with errors: nothing is granted, requests are handled by
# dsem_on_error at once, and the log names the cause once. When the cause is
# gone, service continues.

use lib 't/lib';
use Dsem::Test;

my $HEARTBEAT = 0.6;

my $t = Dsem::Test->new(lease => 3);

my $conf = <<'EOF_CONF';
worker_processes 1;
# between the fourth attempt (after 480 ms at most) and the fifth (730 ms at
# least): an attempt under way would be the cause
dsem_redis_connect_timeout 600ms;
dsem_redis_timeout 1s;
dsem_lease 3s;
dsem_reuse off;
dsem_status 503 error=500;
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Sem $dsem_name;
    add_header X-Status $dsem_status always;
    location /reject {
        dsem api limit=2 queue=10 timeout=10s;
        dsem_on_error reject;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /pass {
        dsem other limit=2 queue=10 timeout=10s;
        dsem_on_error pass;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# Redis, upstream and node of the cause at hand; some causes last at the same
# time, each in a lane of its own
my ($redis, $up, $node, $state);

sub lane {
    my ($n) = @_;
    my $lane = {
        redis => $t->redis(args => [
            qw(--enable-debug-command yes --busy-reply-threshold 50
                --loading-process-events-interval-bytes 1024) ]),
        up => $t->upstream,
        available => now,
    };
    $lane->{node} = $t->node("n$n", $conf);
    $lane->{state} = Dsem::State->new($lane->{redis});
    return $lane;
}

sub enter {
    my ($lane) = @_;
    ($redis, $up, $node, $state) = @$lane{qw(redis up node state)};
    return $lane;
}

sub config { $redis->cmd(qw(CONFIG SET), @_) }

# A separate connection for commands that do not return at once.
my @busy;

sub begin_redis {
    my ($command, $error) = @_;
    my ($host, $port) = split /:/, $redis->address;
    push @busy, $t->client->raw($host, $port)->send("$command\r\n");
    wait_for { !eval { $redis->cmd('DBSIZE') } && $@ =~ $error } 15, $error;
}

my @rounds = ([
    [ 'LOADING', sub {
            $redis->cmd(qw(DEBUG POPULATE 2000 filler));
            config('key-load-delay' => 5000);
            begin_redis('DEBUG RELOAD', qr/LOADING/);
        },
        sub {
            config('key-load-delay' => 0);
            wait_for { eval { $redis->cmd('DBSIZE') } } 10, 'loaded';
        } ],
    [ 'READONLY', sub {
            $redis->cmd('REPLICAOF', '127.0.0.1', $t->free_port) },
        sub { $redis->cmd(qw(REPLICAOF NO ONE)) } ],
    [ 'MASTERDOWN', sub {
            config('replica-serve-stale-data' => 'no');
            $redis->cmd('REPLICAOF', '127.0.0.1', $t->free_port);
        },
        sub { $redis->cmd(qw(REPLICAOF NO ONE)) } ],
    [ 'NOREPLICAS', sub { config('min-replicas-to-write' => 1) },
        sub { config('min-replicas-to-write' => 0) } ],
], [
    # another user than that of the test needs no password of the default one
    ($ENV{DSEM_ACL} ? () : [ 'NOAUTH',
        sub { config(requirepass => 'x'); $redis->client_kill },
        sub { config(requirepass => '') } ]),
    [ 'NOPERM', sub { $redis->cmd(qw(ACL SETUSER), $redis->user, '-evalsha') },
        sub { $redis->cmd(qw(ACL SETUSER), $redis->user, '+evalsha') } ],
    [ 'OOM', sub { config(maxmemory => 1) },
        sub { config(maxmemory => 0) } ],
    [ 'ERR max number of clients',
        sub { config(maxclients => 1); $redis->client_kill },
        sub { config(maxclients => 1000) } ],
], [
    [ 'BUSY',
        sub { begin_redis('EVAL "while true do end" 0', qr/BUSY/) },
        sub { $redis->cmd(qw(SCRIPT KILL)) } ],
]);

sub queues {
    my ($lane) = @_;
    my $name = $lane->{name};
    # a connection that fails within a heartbeat is not opened again at once
    wait_for { now > $lane->{available} + $HEARTBEAT + 0.1 } 15, 'a heartbeat';
    $lane->{waiting} = $node->begin('/reject?hang=1');
    eventually { $state->waiting('api') == 1 } "$name: one request queued";
    $node->clear_logs;
}

sub fails {
    my ($lane) = @_;
    $lane->{cause}->();
    $lane->{asked} = $node->begin('/reject');
}

sub failed {
    my ($lane) = @_;
    my ($name, $error, $waiting, $asked) = @$lane{qw(name error waiting asked)};
    is $asked->wait->status, 500, "$name: request refused";
    cmp_ok $asked->took, '<', 2, "$name: refused in time";
    is $waiting->wait->status, 500, "$name: waiting request refused";
    is $node->get('/pass?t=1')->status, 200, "$name: pass mode passes";
    my @again = map { $node->get('/reject') } 1 .. 3;
    is_deeply [ map { $_->status } @again ], [ (500) x 3 ],
        "$name: requests refused again";
    # without the time in which Redis or a connection may be late; one of them may
    # meet a worker that is stopped for a moment
    my ($least) = sort { $a <=> $b } map { $_->took } @again;
    cmp_ok $least, '<', 0.25, "$name: refused at once";
    is $up->now, 2, "$name: running requests kept";

    is scalar($node->grep_log(qr/\[error\].*dsem.*unavailable\ \(.*
            (?:\Q$error\E|no\ reply\ in\ time)/x)), 1,
        "$name: unavailable once, with the cause";
    is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem: /)), 1,
        "$name: no other line";
}

sub continues {
    my ($lane) = @_;
    my $name = $lane->{name};
    eventually { $node->grep_log(qr/\[notice\].*available again/) == 1 }
        "$name: available again", 5;
    $lane->{available} = now;
    eventually { $state->held('api') == 2 } "$name: permits still held";
    my %said = map { $_->{dsem_status} => 1 } $node->access_log;
    is_deeply [ sort keys %said ], [qw(DEGRADED ERROR)],
        "$name: statuses logged";
}

my @lanes = map { lane($_) } 1 .. 4;
for my $lane (@lanes) {
    enter($lane);
    $lane->{running} = [ map { $node->begin('/reject?hang=1') } 1, 2 ];
    eventually { $up->now == 2 } 'all permits out';
}

for my $round (@rounds) {
    my @used = @lanes[ 0 .. $#$round ];
    for my $n (0 .. $#$round) {
        @{ $lanes[$n] }{qw(error cause cure)} = @{ $round->[$n] };
        my ($name) = $round->[$n][0] =~ /^(\w+)/;
        $lanes[$n]{name} = $name eq 'ERR' ? 'maxclients' : $name;
    }
    queues(enter($_)) for @used;
    fails(enter($_)) for @used;
    # the end of one is when it is seen
    wait_for { @used == grep { $_->{asked}->done } @used } 30, 'all answers';
    failed(enter($_)) for @used;
    enter($_)->{cure}->() for @used;
    continues(enter($_)) for @used;
}

# one semaphore's key is of another type: other semaphores work

enter($lanes[0]);

sub status { return $node->get('/pass?t=1')->header('X-Status') }

$node->clear_logs;
my $key = $state->semaphore_key('other');
$redis->cmd('SET', $key, 'mine');
is status(), 'DEGRADED', 'WRONGTYPE: pass mode passes' for 1 .. 3;
is $state->held('api'), 2, 'WRONGTYPE: other permits held';
my $third = $node->begin('/reject?hang=1');
eventually { $state->waiting('api') == 1 } 'WRONGTYPE: other queue used';
is scalar($node->grep_log(
    qr/\[error\].*dsem: .*"other" unusable \(key "\Q$key\E" in redis is of/)), 1,
    'WRONGTYPE: cause logged once';
is scalar($node->grep_log(qr/unavailable \(/)), 0,
    'WRONGTYPE: redis stays available';
is $redis->cmd('GET', $key), 'mine', 'WRONGTYPE: key not touched';
$state->delete_semaphore('other');
is status(), 'PASSED', 'WRONGTYPE: request served again';

# to the end

my @running = @{ $lanes[0]{running} };
$up->release_nonce($running[0]->nonce);
is $running[0]->wait->status, 200, 'first request served';
eventually { $up->now('api') == 2 && $up->started > 2 } 'handed over';
$_->{up}->release_all for @lanes;
is $_->wait->status, 200, 'request served' for $running[1], $third;
for my $lane (@lanes) {
    is $_->wait->status, 200, 'running request served'
        for $lane == $lanes[0] ? () : @{ $lane->{running} };
    is $lane->{up}->peak('api'), 2, 'limit reached, never exceeded';
}

$t->done;
