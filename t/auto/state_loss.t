#!/usr/bin/perl

# Redis loses its state, and with it the limit that was found: workers know it,
# and it is in force again when the state has recovered.

use lib 't/lib';
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_lease 1m;
location /lost {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# a worker that does not know of the other one yet would not wait for it
$redis->all_beat(2);
wait_for { limit() } 15, 'a limit';
$t->state->set_found('api', $FOUND);
# a worker sends its next sample when it has had the reply to the last one
my %samples;
wait_for {
    $node->get('/lost');
    my $sample = $t->state->sample('api');
    $samples{$sample}++ if $sample;
    keys %samples == 3;
} 15, 'samples';
is $t->state->rule('api')->{found}, $FOUND, 'the limit that was found';
my @requests = map { $node->begin("/lost?hang=1&n=$_") } 1 .. 40;
wait_for { $up->now == $FOUND } 15, 'the limit that was found';

my $gen = $t->state->shard('gen');
$redis->cmd('FLUSHALL');
my $first;
wait_for { $first = limit() } 15, 'the first session';
is $first, $FOUND, 'the limit known before';
wait_for { ($t->state->shard('gen') // $gen) ne $gen && !$redis->recovering }
    15, 'recovery';
eventually { $t->state->counts('api') eq "$FOUND $FOUND" } 'all declared';
wait_for { $up->release_all; !grep { !$_->done } @requests } 15,
    'the end of all requests';
is_deeply [ grep { $_->status ne 200 } @requests ], [],
    'all requests served';
is $up->peak, $FOUND, 'limit never exceeded';

$t->done;

sub limit { return $t->state->lowest_limit('api') }
