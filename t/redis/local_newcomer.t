#!/usr/bin/perl

# Redis is lost right after a second node has begun. The first one has had no
# beat since then: it learns from a message that it shares the limit, so that
# the two admit no more than the limit when the lease is over.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 8;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $conf = <<'EOF_CONF';
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
location /local {
    dsem api limit=8 queue=100 timeout=20s;
    proxy_set_header X-Sem %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $first = $t->node('first', $conf);
wait_for { $t->state->session_count == 1 } 15, 'the first node';
$redis->beats(1, 'its messages');
my $second = $t->node('second', $conf);
wait_for { $t->state->session_count == 2 } 15, 'the second node';
$redis->kill;

my $load = $t->load_start(clients => 4 * $LIMIT, seconds => 60,
    urls => [ map { $_->url('/local?t=50') } $first, $second ]);
wait_for { 2 == grep { $up->now($_->name) == $LIMIT / 2 } $first, $second }
    15, 'both shares to be used';
my $served = $up->served;
wait_for { $up->served > $served + 5 * $LIMIT } 15, 'the load to go on';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
$redis->start;
$load->stop->wait;

$t->done;
