#!/usr/bin/perl

# A request in an old worker whose permit comes in the turn in which those that
# wait are refused ("worker_shutdown_timeout") has that permit. If it then waits
# for another semaphore, it is refused later.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 2s;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem a limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /both {
            dsem b limit=1 queue=10 timeout=60s;
            dsem c limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /b {
            dsem b limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /c {
            dsem c limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $clock->node('a', $conf);
my $other = $t->node('b', $conf);

# The clock is where those that wait are refused, and nginx does not close all
# connections yet. What wakes the worker is the permit, unless it is faster.
sub round {
    my %holder = map { $_ => $other->begin("/$_?hang=1") } '', 'b', 'c';
    wait_for { $up->now == 3 } 15, 'three at the backend';
    my @asks = map { $node->begin($_) } '/', '/', '/both';
    wait_for { $t->state->waiting('a') == 2 && $t->state->waiting('b') == 1 }
        15, 'three wait';
    my ($old) = $node->workers;
    $clock->stop;
    $node->reload;
    wait_for { grep { $_ == $old } $node->draining } 15, 'the worker to exit';
    $node->clear_logs;
    $clock->step(1.95);
    $holder{b}->abort;
    $holder{''}->abort;
    my @got = map { $_->wait->status } @asks[0, 1];
    $clock->go;
    push @got, $asks[2]->wait->status;
    $up->release_all;
    $holder{c}->wait;
    wait_for { !$node->draining } 15, 'the end of the old worker';
    return @got;
}

my (@got, @both);
for (1 .. 30) {
    @got = round();
    @both = $node->grep_log(qr/worker exits, .* semaphore "c"/);
    last if $got[0] == 200 && @both;
}

is $got[0], 200, 'granted in that turn: served';
is $got[1], 503, 'one that waits is refused';
is $got[2], 503, 'and one that waits for another semaphore then';
is @both, 1, 'for that';

$t->done;
