#!/usr/bin/perl

# Commands sent on abandoned connections arrive late, after the worker has
# declared on a new connection: asks, releases, hellos of old epochs. Redis
# executes these commands, and none has an effect.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $back = $t->proxy($redis->address);
my $front = $t->proxy($back->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_timeout %%TIMEOUT%%;
dsem_reuse off;
dsem_on_error reject;
dsem_status 503 error=500;
location /late {
    dsem api limit=3 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# only one of them has to do without replies
my $node = $clock->node('a', $conf, REDIS => $front->address,
    TIMEOUT => '1s');
my $other = $t->node('b', $conf, TIMEOUT => '10s');

# the semaphore's state in Redis, and the epochs of live sessions
sub state {
    my $state = $t->state->snapshot('api');
    delete @{ $state->{figures} }{qw(touched seq)};
    # a heartbeat renews it
    delete $_->{ends} for values %{ $state->{entries} };
    return $state;
}

sub held { $t->state->held('api') }
sub waiting { $t->state->waiting('api') }

# where Redis is slow it is unavailable at first
eventually { $node->get('/late?t=1')->status == 200 } 'service';
my @running = map { $node->begin('/late?hang=1') } 1, 2;
eventually { $up->now == 2 } 'two requests running';

# one request ends, others ask, and Redis receives nothing

sub sent {
    my ($act, $what) = @_;
    my $before = $front->bytes->{c2s};
    my $value = $act->();
    wait_for { $front->bytes->{c2s} > $before } 15, $what;
    return $value;
}

my $accepted = $back->accepted;
# no reply is late: each command is sent
$clock->stop;
is $node->get('/late?t=1')->status, 200, 'no reply awaited';
wait_for { held() == 2 } 15, 'its release';
$back->freeze('c2s');
sent(sub { $up->release_nonce($running[0]->nonce) }, 'the release');
is $running[0]->wait->status, 200, 'one request ended';
my @lost = map {
    sent(sub { $node->begin('/late?hang=1') }, 'an ask')
} 1 .. 3;
$clock->go;
is $_->wait->status, 500, 'request refused' for @lost;
is held(), 2, 'no command executed';

# connections that get no further

wait_for { $back->accepted > $accepted + 2 } 15, 'more connections';
$front->retarget($redis->address);
# no subscription through the back: neither the old one, nor one on its way
$redis->cmd(qw(CLIENT KILL TYPE pubsub SKIPME yes));
wait_for { $t->state->subscribed == 2 } 15,
    'both subscribed';
eventually { $node->get('/late?t=1')->status == 200 } 'service continues';
my @now = map { $_->begin('/late?hang=1') } $node, $other;
eventually { $up->now == 3 && held() == 3 } 'all permits out';
my $waiting = $other->begin('/late?hang=1');
eventually { @{ state()->{queue} } == 1 } 'one request queued';

my $before = state();
my $executed = $redis->calls->{evalsha};
$back->thaw('c2s');
wait_for { $back->open == 0 } 15, 'the late ones to arrive';
cmp_ok $redis->calls->{evalsha} - $executed, '>=', 4, 'late commands executed';
is_deeply state(), $before, 'state unchanged';
is $up->now, 3, 'no request admitted';

# deltas are right again: each release is counted once

$up->release(1);
eventually { waiting() == 0 && $up->now == 3 && held() == 3 }
    'waiting request served';
$up->release_all;
is $_->wait->status, 200, 'request served' for $running[1], @now, $waiting;
is $up->peak, 3, 'limit reached, never exceeded';
eventually { held() == 0 } 'nothing left';

$t->done;
