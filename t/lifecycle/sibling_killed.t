#!/usr/bin/perl

# A worker is killed and not replaced, because its master hangs. At its next
# heartbeat the other worker of the node finds that the process is gone, though
# not yet waited for, and removes its session. A stopped worker is not taken
# for dead.

use lib 't/lib';
use Dsem::Test;

my $HEARTBEAT = 1;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes %%WORKERS%%;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 10s;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location /freed {
            dsem api limit=3 queue=10 timeout=20s;
            proxy_set_header X-Node $pid;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf, WORKERS => 3);
my $other = $t->node('b', $conf, WORKERS => 1);

sub sessions { $t->state->session_count }

# the kernel chooses the worker: one permit with each

my %of;
wait_for {
    my $request = $node->begin('/freed?hang=1');
    my $nonce = $request->nonce;
    my $running = wait_for {
        (grep { $_->{nonce} eq $nonce } $up->log)[0];
    } 15, 'the request at the upstream';
    my $worker = $running->{node};
    $of{$worker} ? $request->close : ($of{$worker} = $request);
    wait_for { $up->now == keys %of } 15, 'ticket removed';
    keys %of == 3;
} 10, 'a request in each worker';
my ($dies, $stands, $lives) = sort { $a <=> $b } keys %of;
my $asks = $other->begin('/freed?t=1');
eventually { $t->state->waiting('api') == 1 } 'no free permit';

$node->freeze($node->pid);
$node->freeze($stands);
my $killed = now;
$node->kill_worker($dies);
is $asks->wait->status, 200, "killed worker's permit returned";
my $freed = took($killed);
cmp_ok $freed, '<', $HEARTBEAT + 4, 'returned by next heartbeat';
note sprintf 'after %.3f s', $freed;
eventually { $node->grep_log(qr/of a dead worker/) == 1 }
    'only dead session removed';
eventually { sessions() == 3 } 'dead session gone';
is $up->now, 2, 'other permits still held';
is $up->peak, 3, 'limit reached, never exceeded';

$node->thaw;
wait_for { $node->workers == 3 } 15, 'a successor';
$up->release_all;
is $of{$_}->wait->status, 200, 'other requests served'
    for $stands, $lives;
eventually { sessions() == 4 } 'only live sessions';

$t->done;
