#!/usr/bin/perl

# Lower orders of names with one checksum are apart: a request of another name,
# which a client may have chosen for it, neither ends the order of a name in an
# outage nor brings its own to it.

use lib 't/lib';
use Dsem::Test;
use Compress::Zlib qw(crc32);

my %twin = (api => 'aPzGXQ', backup => 'hVWi1S');
is crc32($_), crc32("tenant:$twin{$_}"), "one checksum of $_ and its twin"
    for sort keys %twin;

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
    dsem tenant:$arg_t limit=6;
    proxy_pass http://%%UPSTREAM%%;
}
location /api {
    dsem api limit=6;
    proxy_pass http://%%UPSTREAM%%;
}
location /backup {
    dsem backup limit=6;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

$t->state->order('api', '3 0');
$t->state->order("tenant:$twin{backup}", '2 0');
seen('/api?', 'api');
seen('/backup?', 'backup');
seen("/?t=$twin{$_}", "tenant:$twin{$_}") for reverse sort keys %twin;

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { $node->get('/?t=other')->status == 200 } 15, 'the lease is over';
is admitted('/api?'), 3, 'the order of api';
is admitted("/?t=$twin{api}"), 6, 'no order of its twin';
is admitted('/backup?'), 6, 'no order of backup';
is admitted("/?t=$twin{backup}"), 2, 'the order of its twin';
$redis->start;

$t->done;

# Redis has granted a request, and the worker has the reply to its release.
sub seen {
    my ($path, $of) = @_;
    wait_for { $node->get($path)->header('X-Dsem') eq 'PASSED' } 15,
        "$of granted";
    wait_for { $t->state->held($of) == 0 } 15, "$of released";
    $redis->all_beat(1);
}

# How many of eight requests are.
sub admitted {
    my ($path) = @_;
    return $up->admitted(map { $node->begin("$path&hang=1") } 1 .. 8);
}
