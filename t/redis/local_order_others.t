#!/usr/bin/perl

# A lower order stays in force while Redis is unavailable, also if the last reply
# was to requests that ask for no more than it: those of a worker from before a
# reload, which drains, or those of another location with a lower limit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
add_header X-Dsem $dsem_status always;
location / {
    dsem tenant:$arg_n limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
location /literal {
    dsem api limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
location /mixed {
    dsem mixed:$arg_n limit=20;
    proxy_pass http://%%UPSTREAM%%;
}
location /mixed/batch {
    dsem mixed:$arg_n limit=2;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
$state->order($_, '4 0') for 'tenant:a', 'api', 'mixed:a';

my @old = map { $node->begin("$_&hang=1") } '/?n=a', '/literal?n=a', '/?n=b';
wait_for { $up->now == 3 } 15, 'requests of the old worker';
$node->reload($node->{text} =~ s/limit=4/limit=20/gr);
seen('/?n=a');
seen('/literal');
for my $request (@old) {
    $up->release_nonce($request->nonce);
    is $request->wait->status, 200, 'served by the old worker';
    # until it has read the reply to this release; without a request it ends
    next if $request == $old[-1];
    $redis->all_beat(2) for 1, 2;
}
wait_for { !$node->draining } 15, 'the old worker has ended';

seen('/mixed?n=a');
seen('/mixed/batch?n=a');
wait_for { $state->held('mixed:a') == 0 } 15, 'replies to all';
$redis->all_beat(1);

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { $node->get('/?n=other')->status == 200 } 15, 'the lease is over';
is admitted('/?n=a'), 4, 'a name from variables';
is admitted('/literal?n=a'), 4, 'a literal name';
is admitted('/mixed?n=a'), 4, 'requests with another limit';
is admitted('/mixed/batch?n=a'), 2, 'whose own is lower still';
$redis->start;

$t->done;

# Redis has granted a request.
sub seen {
    my ($path) = @_;
    wait_for { $node->get($path)->header('X-Dsem') eq 'PASSED' } 15,
        "$path granted";
}

# How many of five requests are.
sub admitted {
    my ($path) = @_;
    return $up->admitted(map { $node->begin("$path&hang=1") } 1 .. 5);
}
