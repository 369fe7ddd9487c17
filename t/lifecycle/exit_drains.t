#!/usr/bin/perl

# A worker exits with permits to release. With a slow Redis it waits for the
# reply. With a Redis that is silent, or refuses connections, it waits for two
# seconds and logs a warning, and its permits are released when the lease
# expires.

use lib 't/lib';
use Dsem::Test;

my ($LEASE, $LINGER, $DELAY) = (60, 2, 0.2);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_reuse off;
dsem_lease 1m;
location / {
    dsem $arg_of limit=3 queue=10 timeout=60s;
    proxy_set_header X-Sem $arg_of;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub of {
    my ($name, $field) = @_;
    return $t->state->figure($name, $field);
}

sub sessions {
    my ($node) = @_;
    return grep { /^$node:/ } $t->state->sessions;
}

my $stays = $t->node('stays', $conf);

# three requests running in a node that is then stopped, which is called as their
# semaphore
sub on_the_way_out {
    my ($name) = @_;
    my $proxy = $t->proxy($redis->address);
    my $node = $t->node($name, $conf, REDIS => $proxy->address);
    eventually { sessions($name) == 1 } "$name: session open";
    my @running = map { $node->begin("/?hang=1&of=$name") } 1 .. 3;
    eventually { $up->now($name) == 3 } "$name: three requests running";
    $node->signal('QUIT');
    eventually { !$node->workers } "$name: worker exiting";
    is of($name, 'held'), 3, "$name: permits out";
    return ($node, $proxy, @running);
}

# slow

my ($node, $proxy, @running) = on_the_way_out('slow');
$proxy->delay($DELAY);
my $waits = $stays->begin('/?t=1&of=slow');
eventually { of('slow', 'waiting') == 1 } 'slow: one queued elsewhere';
my $ended = now;
$up->release_all;
is $_->wait->status, 200, 'slow: served' for @running;
is $waits->wait->status, 200, 'slow: permits returned';
eventually { !$node->alive } 'slow: worker gone';
my $took = took($ended);
cmp_ok now - $ended, '>', 2 * $DELAY - 0.1, 'slow: reply awaited';
cmp_ok $took, '<', $LINGER + 1.5, 'slow: exit after the reply';
is of('slow', 'held'), 0, 'slow: nothing held after exit';
is scalar($node->grep_log(qr/exiting without a /)), 0,
    'slow: no warning';
note sprintf 'slow: %.2f s', $took;
eventually { sessions('slow') == 0 } 'slow: session removed';

# silent, and refused, both at the same time

my %of;
for my $how (qw(silent refused)) {
    ($node, $proxy, @running) = on_the_way_out($how);
    if ($how eq 'silent') {
        $proxy->freeze;
    } else {
        $proxy->refuse;
        $proxy->cut;
    }
    $waits = $stays->begin("/?t=1&of=$how");
    eventually { of($how, 'waiting') == 1 } "$how: one queued elsewhere";
    $of{$how} = { node => $node, running => [@running], waits => $waits };
}

$ended = now;
$up->release_all;
for my $how (qw(silent refused)) {
    is $_->wait->status, 200, "$how: served" for @{ $of{$how}{running} };
}
for my $how (qw(silent refused)) {
    ($node, $waits) = @{ $of{$how} }{qw(node waits)};
    eventually { !$node->alive } "$how: worker gone";
    $took = took($ended);
    cmp_ok now - $ended, '>', $LINGER - 0.5, "$how: exit delayed";
    cmp_ok $took, '<', $LINGER + 2, "$how: delay bounded";
    is scalar($node->grep_log(
        qr/\[warn\].*exiting without a (?:session|reply)/)), 1,
        "$how: logged once";
    is of($how, 'held'), 3, "$how: permits still out";
    ok !$waits->done, "$how: one still waits";
    note sprintf '%s: %.2f s', $how, $took;
}
my $ends = now;
$t->state->lapse(map { sessions($_) } qw(silent refused));
for my $how (qw(silent refused)) {
    is $of{$how}{waits}->wait->status, 200, "$how: released by lease expiry";
    cmp_ok took($ends), '<', $LEASE / 2, "$how: released in time";
    eventually { sessions($how) == 0 } "$how: session removed";
}

is $up->peak($_), 3, "$_: limit reached, never exceeded"
    for qw(slow silent refused);

$t->done;
