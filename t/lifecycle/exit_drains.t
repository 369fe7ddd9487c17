#!/usr/bin/perl

# A worker exits with permits to release. With a slow Redis it waits for the
# reply. With a silent Redis it waits for two seconds and logs a warning, and
# its permits are released when the lease expires.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LEASE, $LINGER, $DELAY) = (4, 2, 0.5);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_timeout 3s;
    dsem_node %%NODE%%;
    dsem_reuse off;
    dsem_lease 4s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /leaves {
            dsem api limit=3 queue=10 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub of {
    my ($field) = @_;
    return $t->state->figure('api', $field);
}

sub sessions {
    my ($node) = @_;
    return scalar grep { /^$node:/ } $t->state->sessions;
}

my $stays = $t->node('stays', $conf);

# three requests running in a node that is then stopped
sub on_the_way_out {
    my ($name) = @_;
    my $proxy = $t->proxy($redis->address);
    my $node = $t->node($name, $conf, REDIS => $proxy->address);
    eventually { sessions($name) == 1 } "$name: session open";
    my @running = map { $node->begin('/leaves?hang=1') } 1 .. 3;
    eventually { $up->now == 3 } "$name: three requests running";
    $node->signal('QUIT');
    eventually { !$node->workers } "$name: worker exiting";
    is of('held'), 3, "$name: permits out";
    return ($node, $proxy, @running);
}

# slow

my ($node, $proxy, @running) = on_the_way_out('slow');
$proxy->delay($DELAY);
my $waits = $stays->begin('/leaves?t=1');
eventually { of('waiting') == 1 } 'slow: one queued elsewhere';
my $ended = now;
$up->release_all;
is $_->wait->status, 200, 'slow: served' for @running;
ok $node->alive, 'slow: worker still there';
is $waits->wait->status, 200, 'slow: permits returned';
eventually { !$node->alive } 'slow: worker gone';
my $took = now - $ended;
cmp_ok $took, '>', 2 * $DELAY - 0.1, 'slow: reply awaited';
cmp_ok $took, '<', $LINGER + 1.5, 'slow: exit after the reply';
is of('held'), 0, 'slow: nothing held after exit';
is scalar($node->grep_log(qr/exiting without a /)), 0,
    'slow: no warning';
note sprintf 'slow: %.2f s', $took;
eventually { sessions('slow') == 0 } 'slow: session removed', 3;

# silent, and refused

for my $how (qw(silent refused)) {
    ($node, $proxy, @running) = on_the_way_out($how);
    if ($how eq 'silent') {
        $proxy->freeze;
    } else {
        $proxy->refuse;
        $proxy->cut;
    }
    my $gone = now;
    $waits = $stays->begin('/leaves?t=1');
    eventually { of('waiting') == 1 } "$how: one queued elsewhere";
    $ended = now;
    $up->release_all;
    is $_->wait->status, 200, "$how: served" for @running;
    eventually { !$node->alive } "$how: worker gone";
    $took = now - $ended;
    cmp_ok $took, '>', $LINGER - 0.5, "$how: exit delayed";
    cmp_ok $took, '<', $LINGER + 2, "$how: delay bounded";
    is scalar($node->grep_log(qr/\[warn\].*exiting without a (?:session|reply)/)), 1,
        "$how: logged once";
    is of('held'), 3, "$how: permits still out";
    ok !$waits->done, "$how: one still waits";

    is $waits->wait->status, 200, "$how: released by lease expiry";
    cmp_ok now - $gone, '<', $LEASE + 3, "$how: released in time";
    eventually { sessions($how) == 0 } "$how: session removed";
    note sprintf '%s: %.2f s', $how, $took;
}

is $up->peak, 3, 'limit reached, never exceeded';

$t->done;
