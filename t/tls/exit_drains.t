#!/usr/bin/perl

# A worker with TLS exits: its permits are free at once, with a slow Redis too,
# whether it may finish its requests or has to stop.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $LEASE = 20;

my $t = Dsem::Test->new(lease => $LEASE);
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%TLS%%;
dsem_reuse off;
dsem_lease 20s;
location /leaves {
    dsem api limit=3 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $stays = $t->node('stays', $conf, TLS => $tls->to($redis));

# three requests running in a node behind a slow network
sub running {
    my ($name, $delay) = @_;
    my $proxy = $t->proxy($redis->tls_address);
    my $node = $t->node($name, $conf,
        TLS => $tls->to($redis, address => $proxy->address));
    eventually { grep { /^$name:/ } $t->state->sessions }
        "$name: session open";
    my @running = map { $node->begin('/leaves?hang=1') } 1 .. 3;
    eventually { $up->now == 3 } "$name: three requests running";
    $proxy->delay($delay);
    my $waits = $stays->begin('/leaves?t=1');
    wait_for { $t->state->waiting('api') == 1 } 15, 'one queued elsewhere';
    return ($node, $waits, @running);
}

sub gone {
    my ($name, $node, $waits, $began) = @_;
    is $waits->wait->status, 200, "$name: permits returned";
    cmp_ok took($began), '<', $LEASE / 4, "$name: not by the lease";
    eventually { !$node->alive } "$name: worker gone";
    eventually { !grep { /^$name:/ } $t->state->sessions }
        "$name: session removed";
    is scalar($node->grep_log(qr/exiting without a /)), 0,
        "$name: no warning";
}

# at the end of its requests

my ($node, $waits, @running) = running('quits', 0.3);
my $began = now;
$node->signal('QUIT');
eventually { !$node->workers } 'quits: worker exiting';
$up->release_all;
is $_->wait->status, 200, 'quits: served' for @running;
gone('quits', $node, $waits, $began);

# at once: no event loop reads the replies

($node, $waits, @running) = running('stops', 0.03);
$began = now;
$node->signal('TERM');
gone('stops', $node, $waits, $began);
$_->close for @running;
$up->release_all;

$t->done;
