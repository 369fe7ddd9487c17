#!/usr/bin/perl

# worker_shutdown_timeout ends every connection of an exiting worker. Requests
# end, permits and tickets are returned, and the worker exits.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 2s;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /ended {
            dsem api limit=10 queue=10 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub counts { return $t->state->counts('api') }

# A worker that stands still for the last half second ends all at once: it may
# leave, of the session that it ends, permits that its last releases gave to its
# own requests. The next request that needs them has them.

my @requests;
my $returned = 0;
my $rounds = $ENV{DSEM_LONG} ? 20 : 3;
for my $round (1 .. $rounds + 5) {
    my $old;
    wait_for { ($old) = $t->state->sessions };
    $up->reset;
    @requests = map { $node->begin('/ended?hang=1') } 1 .. 10;
    eventually { $up->now == 10 } 'ten requests running';
    push @requests, map { $node->begin('/ended?hang=1') } 1 .. 5;
    eventually { counts() eq '10 5' } 'five requests queued';

    my $reloaded = now;
    $node->reload;
    is scalar($node->grep_log(qr/gracefully shutting down/)), $round,
        'worker exiting';

    wait_for { $_->done } 15, 'the end' for @requests;
    my $ended = took($reloaded);
    cmp_ok $ended, '<', 5, 'ended in time';
    is scalar(grep { $_->status == 503 } @requests[10 .. 14]), 5,
        'those that wait refused';
    wait_for { $up->now == 0 } 15, 'the end at the upstream';
    is scalar(grep { $_->{end} < $reloaded + 1.95 } $up->log), 0,
        'requests ended at timeout';
    eventually { !$node->draining } 'old worker gone';
    is $t->state->lease_end($old), undef, 'session removed';
    $returned++ if counts() eq '0 0';
    is $up->peak, 10, 'limit reached, never exceeded';

    $up->reset;
    @requests = map { $node->begin('/ended?hang=1') } 1 .. 10;
    eventually { $up->now == 10 } 'all permits for the new worker';
    is counts(), '10 0', 'no ticket left';
    $up->release_all;
    is $_->wait->status, 200, 'served' for splice @requests;
    eventually { counts() eq '0 0' } 'nothing left';
    last if $round >= $rounds && $returned;
}
cmp_ok $returned, '>', 0, 'permits returned by the worker itself';

$t->done;
