#!/usr/bin/perl

# Near the limit a recall takes what a worker does not need, and the worker
# goes on to reuse the rest. Otherwise every request would acquire and release
# in Redis as soon as one request has waited.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LIMIT = 20;
my $HOLD = 50;      # ms, on average

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @node = $t->fleet(4, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse 2s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=20 queue=1000 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

wait_for { $t->state->session_count == 4 } 15, 'sessions open';

# a random worker and hold time for each request, the same in each run
srand 1;
my @url = map {
    sprintf '%s?t=%.1f', $node[rand @node]->url('/'), -$HOLD * log(1 - rand)
} 1 .. 5000;

sub used {
    my ($part, $seconds) = @_;
    my $before = $redis->calls->{evalsha} // 0;
    my $result = $t->load(rate => $part * $LIMIT * 1000 / $HOLD,
        seconds => $seconds, keepalive => 1,
        request => sub { $url[ $_[0] % @url ] });
    my $served = $result->{statuses}{200} // 0;
    is_deeply [keys %{ $result->{statuses} }], [200],
        "$part in use: no request refused";
    cmp_ok $served, '>', 500, "$part in use: requests served";
    my $cost = (($redis->calls->{evalsha} // 0) - $before) / ($served || 1);
    note sprintf 'of the permits in use: %s, commands per request: %.2f',
        $part, $cost;
    return $cost;
}

my $seconds = $ENV{DSEM_LONG} ? 30 : 4;
cmp_ok used(0.25, $seconds), '<', 0.4, 'quarter in use: few commands'
    if $ENV{DSEM_LONG};
cmp_ok used(0.5, $seconds), '<', 1, 'half in use: fewer than requests';
cmp_ok used(0.7, $seconds), '<', 1.7, '70 % in use: not two commands each';
cmp_ok $up->peak, '<=', $LIMIT, 'limit never exceeded';

$t->done;
