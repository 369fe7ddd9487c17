#!/usr/bin/perl

# More permits are out than the configured limit, and no fault is the reason:
# an order had raised it, or it was lowered while requests ran. Redis loses its
# state, with the order. The permits are declared, and are no overage.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($node) = $t->fleet(1, <<'EOF_CONF');
worker_processes 1;
location / {
    dsem $arg_name limit=3;
    proxy_pass http://%%UPSTREAM%%;
}
location /one {
    dsem lowered limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

sub running {
    my ($name, $n) = @_;
    my $now = $up->now;
    my @held = map { $node->begin("/?hang=1&name=$name") } 1 .. $n;
    wait_for { $up->now == $now + $n } 15, "$name: requests running";
    return @held;
}

sub limit {
    my ($name, $limit) = @_;
    is $node->get("/dsem/semaphores/$name", -method => 'PATCH',
        'Content-Type' => 'application/json', -body => qq({"limit": $limit}))
        ->status, 200, "$name: limit $limit";
}

my @requests = running('raised', 3);
limit('raised', 6);
push @requests, running('raised', 2);
# the next reply has the lower limit of the other location
push @requests, running('lowered', 3);
is $node->get('/one')->status, 503, 'lowered: full';

my $generation = $t->state->shard('gen');
$redis->empty;
wait_for { ($t->state->shard('gen') // $generation) != $generation } 15,
    'another state';
eventually { $t->state->held('raised') == 5 && $t->state->held('lowered') == 3 }
    'all declared';
eventually { !$redis->recovering } 'recovered';
is scalar($node->grep_log(qr/redis lost its state, recov/)), 1, 'loss logged';
is scalar($node->grep_log(qr/overage/)), 0, 'no overage';

$up->release_all;
is $_->wait->status, 200, 'request served' for @requests;

$t->done;
