#!/usr/bin/perl

# Hundreds of attempts to connect fail: refused, accepted and closed, or
# without a reply. No file descriptor and no memory is lost, and the first
# attempt succeeds when Redis is available.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $SECONDS = $ENV{DSEM_LONG} ? 30 : 1.5;
# KB; sanitizers keep for a while what is freed
my $FLAT = $ENV{DSEM_TIME_FACTOR} ? 2048 : 128;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 100ms;
    dsem_redis_timeout 100ms;
    dsem_node %%NODE%%;
    dsem_lease 1s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /asks {
            dsem api limit=2 queue=10;
            dsem_on_error reject;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my ($worker) = $node->workers;
eventually { $t->state->session_count == 1 } 'connected';
is $node->get('/asks?t=1')->status, 200, 'request served';

sub files { return scalar(my @fds = glob "/proc/$worker/fd/*") }

sub kb { return $node->resident / 1024 }

# once the connections of the first request are closed
my ($files, $same) = (files(), 0);
wait_for {
    my $n = files();
    $same = $n == $files ? $same + 1 : 0;
    $files = $n;
    $same > 50;
} 15, 'connections of the first request to close';
my $nobody = '127.0.0.1:' . $t->free_port;

for (
    [ 'closed', sub { $proxy->retarget($nobody); $proxy->reset },
        sub { $proxy->retarget($redis->address) } ],
    [ 'silent', sub { $proxy->reset; $proxy->freeze },
        sub { $proxy->thaw } ],
    [ 'refused', sub { $proxy->refuse; $proxy->reset },
        sub { $proxy->refuse(0) } ],
) {
    my ($how, $go, $come) = @$_;
    $node->clear_logs;
    my $accepted = $proxy->accepted;
    $go->();
    wait_for { $node->grep_log(qr/unavailable \(/) == 1 } 15,
        'redis unavailable';
    my ($began, $before, $most) = (now, kb(), 0);
    wait_for {
        my $n = files();
        $most = $n if $n > $most;
        now > $began + $SECONDS;
    } 60, 'many attempts';
    cmp_ok $most, '<=', $files, "$how: descriptors flat";
    cmp_ok kb() - $before, '<', $FLAT, "$how: memory flat";
    my $n = $proxy->accepted - $accepted;
    cmp_ok $n, '>', 2 * $SECONDS, "$how: many attempts"
        if $how ne 'refused';
    cmp_ok $n, '<', 60 * $SECONDS, "$how: attempts bounded";
    note "$how: $n attempts";
    is scalar($node->grep_log(qr/\[(?:warn|error|crit)\]/)), 1,
        "$how: one line logged";
    $come->();
    eventually { $node->grep_log(qr/available again/) == 1 }
        "$how: available again";
    # the state may recover for a part of the lease
    eventually { $node->get('/asks?t=1')->status == 200 }
        "$how: request served";
    eventually { files() <= $files } "$how: two connections again";
}

$t->done;
