#!/usr/bin/perl

# While Redis is unavailable, or recovers its state, one more request costs
# the worker the same whether none or 4000 others wait for the semaphore.
# DSEM_LONG=1: within a half, on a quiet machine.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'sanitizers have costs of their own'
    if $ENV{DSEM_TIME_FACTOR};

my $WAITING = 4000;
my ($ASKS, $AT_ONCE) = (200, 20);
# a busy machine has cold caches, and 3.8 was seen there; without the order of
# service it was 13
my $BOUND = $ENV{DSEM_LONG} ? 1.5 : 7;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
worker_rlimit_nofile 10000;
events { worker_connections 9000; }
http {
    %%HTTP%%
    access_log off;
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 60s;
    dsem_node %%NODE%%;
    dsem_max_waiting 8000;
    dsem_lease 1h;
    server {
        listen 127.0.0.1:%%PORT%% backlog=8192;
        location / {
            dsem api limit=1 queue=8000 timeout=1h;
            proxy_pass http://%%UPSTREAM%%;
            proxy_read_timeout 1h;
        }
        location /short {
            dsem api limit=1 queue=8000 timeout=1ms;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# ns on a CPU, of the worker
sub cpu {
    my ($pid) = $node->workers;
    open my $fh, '<', "/proc/$pid/schedstat" or die "schedstat: $!";
    return (split ' ', <$fh>)[0];
}

# us for each of $ASKS requests that wait, a few at a time, and leave
sub cost {
    my @rounds;
    for (1 .. 3) {
        my $before = cpu();
        for (1 .. $ASKS / $AT_ONCE) {
            $_->wait->status == 503 or die 'not timed out'
                for map { $node->begin('/short') } 1 .. $AT_ONCE;
        }
        push @rounds, (cpu() - $before) / $ASKS / 1000;
    }
    return (sort { $a <=> $b } @rounds)[0];
}

sub costs {
    my ($state) = @_;
    my $none = cost();
    my @waiting = map { $node->begin('/') } 1 .. $WAITING;
    my $last = $node->get('/short');
    is $last->status, 503, "$state: all wait";
    my $many = cost();
    cmp_ok $many, '<', $BOUND * $none, "$state: others cost nothing";
    note sprintf '%s: %.0f us, %.0f us beside %d', $state, $none, $many,
        $WAITING;
    $_->close for @waiting;
}

# the node that is left knows of the other one
$redis->all_beat(2);

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one request served';

$redis->kill;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';
costs('unavailable');

# a session that stays away keeps the state in recovery
$other->kill;
$redis->start;
eventually { $node->grep_log(qr/lost its state/) } 'redis recovers';
costs('recovering');
ok $redis->recovering, 'state still recovers';

$up->release_all;
is $holder->wait->status, 200, 'holder served';

# the idle permit, before the recovery ends
$node->quit;

$t->done;
