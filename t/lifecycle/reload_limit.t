#!/usr/bin/perl

# A reload halves the limit while all permits are out and requests wait. Once
# the old workers are exiting, the first ask with the new limit decides: nothing
# is granted above it, whatever the old workers hold and ask for.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_lease 2s;
location /lowered {
    dsem api limit=20 queue=200 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('a', $conf);

# the remaining requests arrive when their worker is exiting
my @late = map { $node->raw->send("GET /lowered?t=1 HTTP/1.0\r\n") } 1, 2;

my @requests = map { $node->begin('/lowered?hang=1') } 1 .. 20;
eventually { $up->now == 20 } 'old limit reached';
push @requests, map { $node->begin('/lowered?hang=1') } 1 .. 10;
eventually { $t->state->waiting('api') == 10 } 'requests queued at old workers';
$node->reload($conf =~ s/limit=20/limit=10/r);
push @requests, map { $node->begin('/lowered?hang=1') } 1 .. 10;
eventually { $t->state->waiting('api') == 20 && $t->state->limit('api') == 10 }
    'and at new ones, with the new limit';

# permits come back; all four workers ask again, with their heartbeats
for my $above (15, 10) {
    $up->release(5);
    eventually { $up->now == $above && $t->state->held('api') == $above }
        "$above: five requests ended";
    $redis->beats(8, 'two heartbeats of each worker');
    is $up->started, 20, "$above: no grant above the new limit";
}
$up->release(1);
eventually { $up->started == 21 } 'a grant below the new limit';
is $up->now, 10, 'new limit reached';
$up->reset;
eventually { $up->release_all; !grep { !$_->done } @requests } 'all end';
is scalar(grep { $_->status != 200 } @requests), 0, 'no request lost';
is $up->peak, 10, 'new limit never exceeded';

# an old worker's ask does not bring the old limit back

my @running = map { $node->begin('/lowered?hang=1') } 1 .. 10;
eventually { $up->now == 10 } 'all permits out';
ok scalar($node->draining), 'old worker still there';
$_->send("\r\n") for @late;
eventually { $t->state->waiting('api') == 2 } 'late requests queued';
is $t->state->limit('api'), 10, 'limit stays';
is $up->now, 10, 'limit kept';
$up->release_all;
like $_->read_eof, qr/ 200 /, 'late request served' for @late;
is $_->wait->status, 200, 'request served' for @running;

$t->done;
