#!/usr/bin/perl

# A worker that is stopped at once waits for the reply to its bye, also where the
# timer of "timer_resolution" interrupts it.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $proxy = $t->proxy($t->redis->address);

my $node = $clock->node('a', <<'EOF_CONF', SLOW_REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 1;
timer_resolution 10ms;
events { }
http {
    %%HTTP%%
    dsem_redis %%SLOW_REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem a limit=1;
            empty_gif;
        }
    }
}
EOF_CONF

is $node->get('/')->status, 200, 'Redis replies';
my ($worker) = $node->workers;
$clock->stop;
$proxy->freeze('s2c');
$node->signal('TERM');
wait_for { $t->state->session_count == 0 } 15, 'the bye';

# it has been interrupted, and waits again
my $began = interrupted();
wait_for { interrupted() > $began + 5 } 15, 'the timer';
ok kill(0, $worker), 'it waits for the reply';

$proxy->thaw('s2c');
wait_for { !$node->alive } 15, 'the end';
$t->done;

# how often it has waited, or nothing
sub interrupted {
    open my $fh, '<', "/proc/$worker/status" or return 'inf';
    my ($n) = join('', <$fh>) =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
    return $n // 'inf';
}
