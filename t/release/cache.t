#!/usr/bin/perl

# Responses from a cache: the permit is released at once when no upstream is
# asked. It is held until the upstream response ends even if the client already
# has its response (background update) or has closed its connection.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
lingering_timeout 30s;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Cache $upstream_cache_status;
    location / {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_cache cache;
        proxy_cache_key $uri;
        proxy_cache_valid 200 3s;
        proxy_cache_use_stale updating;
        proxy_cache_background_update on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /log {
        dsem one limit=1 queue=10 timeout=30s;
        dsem_release log;
        proxy_cache cache;
        proxy_cache_key $uri;
        proxy_cache_valid 200 3s;
        proxy_cache_use_stale updating;
        proxy_cache_background_update on;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# fill the cache, then wait until the pages are stale

my %stale = map { $_ => $node->get($_) } '/a', '/b', '/log/a';
my $fetched = time;
is($stale{$_}->header('X-Cache'), 'MISS', "$_ fetched") for sort keys %stale;
is($node->get('/b')->header('X-Cache'), 'HIT', 'permit returned');
is($up->started, 3, 'upstream not asked');
my $stays = $node->raw;
$stays->send("GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    . 'and more');
$stays->read_until(qr{X-Cache: .*/b\n|X-Cache: .*\n\n}s);
eventually { state() eq '0 0' } 'permit returned before the client';
$stays->close;
# after three seconds, and that in which they end
wait_for { time >= $fetched + 4 };

# background updates; a client that keeps its connection delays the log phase

for my $path ('/a', '/log/a') {
    my $late = $path =~ /log/;
    $up->reset;
    my $client = $node->raw;
    $client->send("GET $path?hang=1 HTTP/1.1\r\nHost: a\r\n"
        . "Connection: close\r\nX-Nonce: first\r\n\r\nand more");
    like($client->read_until(qr/\n\n|\/a\n/),
        qr/^HTTP\/1.1 200.*X-Cache: STALE/s, "$path: stale answer");
    eventually { $up->now == 1 } 'update running';
    my $next = $node->begin('/other?t=1');
    eventually { state() eq '1 1' } 'update holds its permit';
    my $begun = now;
    wait_for { now > $begun + 0.3 };
    is($up->peak, 1, 'next request queued');

    $up->release_all;
    my $ended = now;
    wait_for { $next->done || $late && now > $ended + 0.5 };
    is($next->done, $late ? 0 : 1, $late ? 'until the request is logged'
        : 'queued until update ends');
    cmp_ok(took($ended), '<', 15, 'and no longer') unless $late;
    $client->close;
    is($next->wait->status, 200, 'next one served');
    is($up->peak, 1, 'one at a time');
    eventually { state() eq '0 0' } 'no permit held';
}

# requests that wait for another request's update hold a permit only briefly

$up->reset;
my $updating = $node->begin('/b?hang=1');
is($updating->wait->header('X-Cache'), 'STALE', 'second update running');
wait_for { $up->now == 1 };
my @others = map { $node->begin('/b?hang=1') } 1 .. 3;
eventually { state() eq '1 3' } 'other requests queued';
$up->release_all;
is($_->wait->header('X-Cache'), 'HIT', 'served from the cache')
    for @others;
is($up->started, 1, 'upstream asked once');
eventually { state() eq '0 0' } 'no permit held';

# after a client abort the upstream continues for the cache

$up->reset;
my $leaver = $node->begin('/new?hang=1');
wait_for { $up->now == 1 };
my $next = $node->begin('/other2?t=1');
wait_for { state() eq '1 1' };
$leaver->abort;
my $begun = now;
wait_for { now > $begun + 0.3 };
is($up->now, 1, 'upstream continues without client');
is(state(), '1 1', 'permit still held');
$up->release_all;
is($next->wait->status, 200, 'next one served');
is($up->peak, 1, 'one at a time');
eventually { state() eq '0 0' } 'no permit held';

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
