#!/usr/bin/perl

# The master is gone for a while, so that the pauses between attempts to
# connect are long. A worker is at another master some 200 ms after a sentinel
# names it, and makes few attempts to connect until then.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $ROUNDS = $ENV{DSEM_LONG} ? 30 : 6;

my $t = Dsem::Test->new;
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $up = $t->upstream;
my @server = ($set->master, $t->redis);
# closes each connection, as a port without a server does
my $nowhere = $t->proxy('127.0.0.1:' . $t->free_port);
my $guide = $set->watch('mymaster', $server[0]->address);

my $node = $t->node('a', <<'EOF_CONF', SENTINELS => $guide->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 1s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=2 queue=10;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# another one each time, as a worker that is removed has to connect
sub here { return Dsem::State->new($server[ $_[0] % 2 ])->session_count }

my @took;
my ($attempts, $seconds) = (0, 0);
eventually { here(0) == 1 } 'session at the first master';
for my $n (1 .. $ROUNDS) {
    my ($lost, $next) = @server[ ($n - 1) % 2, $n % 2 ];
    $set->name_master($guide, 'mymaster', $nowhere->address);
    my $before = $nowhere->accepted;
    my $gone = now;
    $lost->empty;
    # after the short pauses, at any moment of a long one
    wait_for { now > $gone + 1 + $n % 6 * 0.12 } 15, 'long pauses';
    $attempts += $nowhere->accepted - $before;
    $seconds += now - $gone;
    $set->name_master($guide, 'mymaster', $next->address);
    my $named = now;
    wait_for { here($n) == 1 } 15, 'session at the next master';
    push @took, took($named);
}
my @sorted = sort { $a <=> $b } @took;
note join ' ', map { sprintf '%.3f', $_ } @sorted;
# a busy machine may delay one of them
cmp_ok $sorted[-2], '<', 0.3, 'found soon';
# both connections of the worker
note sprintf '%.2f attempts/s', $attempts / $seconds;
cmp_ok $attempts / $seconds, '<', 2 * 4, 'few attempts';
is $node->get('/?t=1')->status, 200, 'request served';

$t->done;
