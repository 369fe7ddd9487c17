#!/usr/bin/perl

# With proxy_cache: every request that is let in has a permit, be it a HIT or
# a MISS; requests that wait for another one's answer (proxy_cache_lock) hold
# theirs; a stale answer is given where the backend fails; an update in the
# background is not counted, and leaves nothing.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
dsem_reuse off;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m use_temp_path=off;
add_header X-Cache "$upstream_cache_status $dsem_status" always;
proxy_cache_key $uri;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem one limit=2 queue=100 timeout=30s;
        proxy_cache cache;
        proxy_cache_valid 200 1h;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient/ {
        dsem one limit=2;
        proxy_cache cache;
        proxy_cache_key /;
        proxy_cache_valid 200 1h;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /locked {
        dsem locked limit=5 queue=100 timeout=30s;
        proxy_cache cache;
        proxy_cache_valid 200 1h;
        proxy_cache_lock on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /stale {
        dsem stale limit=1 queue=100 timeout=30s;
        proxy_cache cache;
        proxy_cache_valid 200 1s;
        proxy_cache_use_stale error timeout http_500 updating;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /background {
        dsem background limit=1 queue=100 timeout=30s;
        proxy_cache cache;
        proxy_cache_valid 200 1s;
        proxy_cache_use_stale updating;
        proxy_cache_background_update on;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# these pages become stale meanwhile

is(cached("/$_"), '200 MISS PASSED', "$_: fresh page")
    for qw(stale background);
$up->reset;

# MISS and HIT

is(cached('/'), '200 MISS PASSED', 'miss served');
is(cached('/'), '200 HIT PASSED', 'hit served');
my @holders = map { $node->begin("/$_?hang=1") } 1, 2;
wait_for { $up->now == 2 };
is(cached('/impatient/'), '503 REJECTED', 'cached page rejected');
my $hit = $node->begin('/');
eventually { state('one') eq '2 1' } 'hit queued';
$up->release_all;
is($hit->wait->header('X-Cache'), 'HIT QUEUED', 'queued hit served');
is($_->wait->status, 200, 'request served') for @holders;
is($up->served, 3, 'backend asked for misses');
my $load = $t->load(urls => [$node->url('/')], clients => 10,
    requests => 500);
is_deeply($load->{statuses}, { 200 => 500 }, 'many hits served');
is($up->served, 3, 'all hits from cache');
eventually { state('one') eq '0 0' } 'nothing left';

# one asks, the others wait for its answer

my @locked = map { $node->begin('/locked?hang=1') } 1 .. 8;
eventually { state('locked') eq '5 3' && $up->now == 1 }
    'one fetch, four cache waiters';
$up->release_all;
is($_->wait->status, 200, 'request served') for @locked;
eventually { state('locked') eq '0 0' } 'nothing left';

# an old answer for want of a better one

wait_for { cached('/stale?status=500') ne '200 HIT PASSED' };
is(cached('/stale?close=1'), '200 STALE PASSED', 'closed backend: stale page');
is(cached('/stale?status=500'), '200 STALE PASSED',
    'failing backend: stale page');
is(cached('/stale'), '200 EXPIRED PASSED', 'fresh page again');
eventually { state('stale') eq '0 0' } 'nothing left';

# an update in the background

wait_for { $node->get('/background?hang=1')->header('X-Cache') !~ /HIT/ };
eventually { $up->now == 1 } 'updating page';
is($up->release_all, 1, 'one update sent');
eventually { state('background') eq '0 0' && $up->now == 0 } 'nothing left';

done_testing();

sub cached {
    my $request = $node->get(@_);
    return $request->status . ' ' . $request->header('X-Cache');
}

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts($name);
}
