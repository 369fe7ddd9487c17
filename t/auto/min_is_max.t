#!/usr/bin/perl

# Without room between its bounds "limit=auto" is a plain limit: it holds, and
# nothing is kept in Redis to find another one.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /plain {
    dsem api limit=auto min=6 max=6 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $result = $t->load(clients => 30, requests => 300,
    urls => [ $node->url('/plain?t=20') ]);

is $up->peak, 6, 'limit reached, never exceeded';
is_deeply $result->{statuses}, { 200 => 300 }, 'all requests served';
is $t->state->lowest_limit('api'), 6, 'the limit in Redis';
is $redis->cmd('EXISTS', $t->state->auto_key('api')), 0, 'nothing to find';

$t->done;
