#!/usr/bin/perl

# A reload changes the servers of a pool, and lowers the limit of each: requests
# at a server that is gone end well, one that waits in an old worker is served by
# a server of its configuration, and the new limit holds for all.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1 .. 3;
my @server = map { 'server ' . $_->address . ';' } @up;

my $conf = <<'EOF_CONF';
worker_processes 1;
upstream gpus {
    SERVERS
    dsem gpus limit=2/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        add_header X-Server $dsem_server;
    }
}
EOF_CONF

sub running {
    my ($pattern, $name) = @_;
    eventually { join(' ', map { $_->now } @up) eq $pattern } $name;
}
sub counts { return $t->state->counts('gpus') }

# requests wait at workers without a permit: others may hand theirs over
my ($node, $other) = $t->fleet(2, $conf =~ s/SERVERS/@server[0, 1]/r);
my @held = map { $node->begin('/?hang=1') } 1 .. 4;
running('2 2 0', 'two servers are full');
my $old = $other->begin('/?hang=1');
eventually { counts() eq '4 1' } 'one request waits';

# the first server leaves, a third one comes

$_->reload($conf =~ s/SERVERS/@server[1, 2]/r =~ s{2/server}{1/server}r)
    for $node, $other;
eventually { $t->state->lowest_limit('gpus') == 1 } 'the new limit';
my @new = map { $_->begin('/?hang=1') } $node, $other;
running('2 2 1', 'the new server has one of the new requests');
eventually { counts() eq '5 2' } 'the other one waits';

$up[1]->release(1);
eventually { counts() eq '4 2' } 'a request has ended at the second server';
running('2 1 1', 'which is still full');
$up[0]->release(1);
eventually { counts() eq '3 2' } 'one at the first server, too';
$up[0]->release(1);
running('1 1 1', 'that takes what waits in the old worker');
eventually { counts() eq '3 1' } 'only the new request waits';
$up[1]->release(1);
running('1 1 1', 'it gets the second server');
eventually { counts() eq '3 0' } 'none waits';

$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held, $old, @new;
is $old->header('X-Server'), $up[0]->address, 'a server of the old worker';
is_deeply [ sort map { $_->header('X-Server') } @new ],
    [ sort map { $_->address } @up[1, 2] ], 'servers of the new one';
is join(' ', map { $_->peak } @up), '2 2 1', 'limits kept';

$t->done;
