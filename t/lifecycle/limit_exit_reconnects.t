#!/usr/bin/perl

# The limit of a worker that exits does not come back with a new connection of
# the worker, however long its requests run.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    add_header X-Limit $dsem_limit;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=2 queue=9;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $node = $t->node('a', $conf);

sub limit { return $node->get('/')->header('X-Limit') }

is limit(), 2, 'old limit';
my $long = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'a long request';

$node->reload($conf =~ s/limit=2/limit=5/r);
eventually { limit() == 5 } 'new limit, old worker still there';

my %before = %{ $t->state->epochs };
is keys %before, 2, 'two sessions';
$redis->client_kill;
wait_for {
    my $now = $t->state->epochs;
    2 == grep { ($now->{$_} // 0) > $before{$_} } keys %before;
} 15, 'both sessions to register again';
$redis->beats(2, 'heartbeats');
is limit(), 5, 'new limit after the reconnect';

$up->release_all;
is $long->wait->status, 200, 'long request served';

$t->done;
