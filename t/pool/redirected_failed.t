#!/usr/bin/perl

# A request is redirected to its pool again, and its server has failed for others
# meanwhile: it does not keep that permit, and gets another server.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { "server $_ fail_timeout=1h;" }
    map { $_->address } @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream servers {
    $servers
    dsem servers limit=9/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server \$upstream_addr always;
    location / {
        proxy_intercept_errors on;
        error_page 418 = \@again;
        proxy_pass http://servers;
    }
    location \@again {
        proxy_pass http://servers;
    }
    location /other {
        proxy_set_header X-Node %%NODE%%;
        proxy_pass http://servers;
    }
}
EOF_CONF

my $request = $node->begin('/?hang=1&status=418', 'X-Nonce' => 'first');
wait_for { $up[0]->now + $up[1]->now == 1 } 15, 'a request runs';
my ($failed, $other) = $up[0]->now ? @up : reverse @up;
$failed->refuse('a');
my @others;
wait_for {
    push @others, $node->begin('/other?hang=1');
    wait_for { $others[-1]->done || $other->now == @others } 15, 'the next one';
    $others[-1]->done;
} 15, 'another one fails at its server';

$failed->release_nonce('first');
wait_for { $other->now == @others || $request->done } 15, 'it goes on';
$other->release_all;
$_->wait for @others;
is $request->wait->status, 418, 'which answers';
my ($last) = $request->header('X-Server') =~ /(\S+)$/;
is $last, $other->address, 'not the one that has failed';

$t->done;
