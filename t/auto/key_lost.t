#!/usr/bin/perl

# The hash of a semaphore with "limit=auto" is deleted while more permits are
# in use than the limit that "auto" begins with: they are below the limit that
# was found, so it is no overage.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
location /lost {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->lowest_limit('api') } 15, 'the session';
$t->state->set_found('api', 20);
is $node->get('/lost')->status, 200, 'a request';
wait_for { $t->state->rule('api')->{found} } 15, 'its sample';

my @long = map { $node->begin('/lost?hang=1') } 1 .. 15;
wait_for { $up->now == 15 } 15, 'more permits than at the start';
$t->state->delete_semaphore('api');
eventually { $t->state->figure('api', 'held') == 15 } 'declared again';
is scalar($node->grep_log(qr/overage/)), 0, 'no overage';
$up->release_all;
is $_->wait->status, 200, 'request served' for @long;

$t->done;
