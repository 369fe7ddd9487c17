#!/usr/bin/perl

# Redis loses its state. A node that had no requests knows no limit, and is the
# first to come back: the limit goes on with the one that the other has found.

use lib 't/lib';
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($busy, $idle) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
location /lost {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
$t->state->set_found('api', $FOUND);
is $busy->get('/lost')->status, 200, 'a request';
wait_for { found() == $FOUND } 15, 'its sample';
wait_for { $t->state->held('api') == 0 } 15, 'all permits free';

$busy->freeze;
$redis->cmd('FLUSHALL');
wait_for { limit() } 15, 'the idle node';
is limit(), 10, 'which has found nothing';
$busy->thaw;
wait_for { $t->state->session_count == 2 && !$redis->recovering } 30,
    'recovery';

is $busy->get('/lost')->status, 200, 'another request';
wait_for { found() } 15, 'its sample';
is found(), $FOUND, 'goes on with the limit found';

$t->done;

sub limit { return $t->state->lowest_limit('api') }

sub found { return $t->state->rule('api')->{found} // 0 }
