#!/usr/bin/perl

# Recipe "With proxy_cache": what is in the cache is served whatever the cap,
# only what is not takes permits; a page that is out of date is better than a
# refusal. In one location with the cache the cap counts pages from it too.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

# the queue is full until a page is stale
my $recipe = recipe('With proxy_cache', 'timeout=2s' => 'timeout=60s',
    '/run/nginx-misses.sock' => '%%DIR%%/misses.sock',
    '/var/cache/nginx/pages' => '%%DIR%%/pages');
my $line = Fleet::Conf::semaphore($recipe, 'pages');
my ($limit, $queue) = @$line{qw(limit queue)};

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
    server {
        listen 127.0.0.1:%%PORT2%%;
        location /one_location {
            dsem one_location limit=1;
            proxy_cache pages;
            proxy_cache_valid 200 1m;
            proxy_pass http://backend;
        }
    }
}
EOF_CONF
my $node = $fleet[0];

# misses are capped over the fleet, and hits are none

eventually { !misses('/page') } 'a page in the cache';
my @misses = map { $fleet[ $_ % 2 ]->begin("/$_?hang=1") }
    1 .. $limit + $queue;
eventually { $up->now == $limit } 'limit reached';
eventually { waiting() == $queue } 'queue full';
# until no session may have idle permits the queue may be longer
wait_for {
    '0 0' eq join ' ', @{ $t->state->figures('pages') }{qw(active recalled)}
} 15, 'all idle permits recalled';
my $refused = $node->get('/other');
is($refused->status, 503, 'uncached page rejected');
like($refused->header('Retry-After'), qr/^\d+$/, 'for some time');
ok(!misses('/page'), 'cached page needs no permit');
my $missed = 0;
eventually { $missed ||= misses('/page'); stale('/page') }
    'served instead of a refusal';
is($missed, 0, 'stale page needs no permit');
is($up->now, $limit, 'all permits are out');
wait_for { $up->release_all; !grep { !$_->done } @misses } 15, 'the misses';
cmp_ok(scalar(grep { $_->status == 200 } @misses), '>=', $limit,
    'request served');
is($up->peak, $limit, 'limit never exceeded');

# many who want the same

$up->reset;
my @same = map { $node->begin('/same?hang=1') } 1 .. 5;
wait_for { $up->release_all; !grep { !$_->done } @same } 15, 'all of them';
is(scalar(grep { $_->status == 200 } @same), 5, 'the same page for many');
is($up->peak, 1, 'one miss');

# both in one location: what is cached takes a permit as well

is(both('/one_location')->wait->status, 200, 'page cached');
my $miss = both('/one_location/miss?hang=1');
wait_for { $up->now == 1 };
is(both('/one_location')->wait->status, 503, 'cached page rejected');
$up->release_all;
is($miss->wait->status, 200, 'request served');
$up->reset;
is(both('/one_location')->wait->status, 200, 'cached page served');
is($up->started, 0, 'backend not asked');

# a slow reader of it has its permit for an instant only

my $large = '/one_location/large?size=20000000';
is(both($large)->wait->status, 200, 'a large page');
my $slow = both($large);
wait_for { $slow->raw->read };
is(both('/one_location')->wait->status, 200, 'served beside slow reader');
ok(!(grep { $_->{http_x_nonce} eq $slow->nonce } $node->access_log),
    'slow reader still reading');
$slow->close;

done_testing();

# How often the backend is asked for a page that is served.
sub misses {
    my ($path) = @_;
    my $before = $up->started;
    my $request = $node->get($path);
    return $request->status == 200 ? $up->started - $before : -1;
}

# Whether it was served when the second server had answered 503.
sub stale {
    my ($path) = @_;
    return grep { $_->{request_uri} eq $path && $_->{status} == 200
        && $_->{upstream_status} eq '503' } $node->access_log;
}

sub both { $node->client->start('http://127.0.0.1:' . $node->port(2) . $_[0]) }
sub waiting { $t->state->waiting('pages') }
