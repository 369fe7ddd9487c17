#!/usr/bin/perl

# A worker is killed while one of its threads ("aio threads") is in a call of the
# system that no signal ends, as a read from a disk that hangs. The worker is a
# zombie then, but its connections are open until that call ends: its sibling does
# not take it for dead before. Here a debugger ends the first thread, which leaves
# the process in the same state.

use lib 't/lib';
use Dsem::Process;
use Dsem::Test;

require 'sys/syscall.ph';

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
        listen 127.0.0.1:%%PORT%%;
        location / {
            aio threads;
            dsem api limit=1 queue=10 timeout=60s;
            proxy_set_header X-Node $pid;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my $node = $t->node('a', $conf, WORKERS => 2);
my $other = $t->node('b', $conf, WORKERS => 1);

sub turns {
    my ($n) = @_;
    for (1 .. $n) {
        my $before = $t->state->lease_ends;
        wait_for {
            my $ends = $t->state->lease_ends;
            2 <= grep { ($ends->{$_} // 0) > $before->{$_} } keys %$before;
        } 15, 'a heartbeat of two sessions';
    }
}

wait_for { $t->state->session_count == 3 } 15, 'three sessions';
my $runs = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a request runs';
my $worker = ($up->log)[0]{node};
my $asks = $other->begin('/?t=1');
wait_for { $t->state->waiting('api') == 1 } 15, 'another one waits';

Dsem::Process->spawn(name => 'debugger', log => $t->dir . '/debugger',
    argv => ['gdb', '-q', '-batch', '-p', $worker, '-ex', 'handle all nostop',
        '-ex', 'call (long) syscall(' . SYS_exit() . ', 0)']);
wait_for {
    open my $stat, '<', "/proc/$worker/stat" or die "$worker: $!\n";
    <$stat> =~ /\) Z /;
} 30, 'its first thread has ended';
turns(3);
is $up->now, 1, 'its connection is open';
ok !$asks->done, 'and its permit is in use';
is $node->grep_log(qr/of a dead worker/), 0, 'it does not count as dead';

$node->kill_worker($worker);
is $asks->wait->status, 200, 'the permit is free when all threads have ended';
is $node->grep_log(qr/of a dead worker/), 1, 'it counts as dead';
is $up->peak, 1, 'limit reached, never exceeded';
$runs->wait;

$t->done;
