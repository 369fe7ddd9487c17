#!/usr/bin/perl

# The page while Redis or the node is not there: a banner with the reason, old
# figures marked as old, and all by itself as before when they are back.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
# a lost Redis is awaited for so long
dsem_redis_connect_timeout 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem reports limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

is($node->get('/')->status, 200, 'passed');
$browser->open($node->url('/dsem/'), height => 600);
# no figures are old until the test wants it
$browser->evaluate('Object.assign(settings, { poll: 250, old: 1e9 })');
eventually { $browser->text('#redis') =~ /^available/ } 'Redis available';
eventually { $browser->count('tr.row button') == 1 } 'row there';
is($browser->count('.banner'), 0, 'no banner');
$browser->click('tr.row button');

# an answer of something else, as of a proxy that is being maintained

$browser->evaluate(<<'EOF_JS');
    settings.old = 1000;
    window.real = window.fetch;
    window.other = '{}';
    window.fetch = async () => new Response(other);
EOF_JS
for my $other ('{}', '[]', '{"message":"maintenance"}',
    '{"redis":{"state":"available"},"fleet":{"nodes":[]}}')
{
    $browser->evaluate("other = '$other'; poller.failures = 0");
    eventually { $browser->evaluate('poller.failures') > 0 } "$other: failed";
    eventually { $browser->text('#banners')
        =~ /^Node n1 cannot be read\. .*: the answer cannot be shown \(/ }
        'a banner';
}
$browser->evaluate('window.fetch = real');
eventually { $browser->count('.banner') == 0 } 'back by itself';
is_deeply([$browser->problems], [], 'no error');
$browser->evaluate('settings.old = 1e9');

# Redis

$redis->kill;
eventually { $browser->text('#banners') =~ /Redis is unavailable\. For \d+ s, /
} 'a banner';
like($browser->text('#banners'), qr/as node n1 sees it: .*\w/, 'reason');
like($browser->text('#banners'), qr/are handled by dsem_on_error\. Fleet/,
    'what becomes of requests');
like($browser->evaluate('document.title'), qr/Redis unavailable/,
    'title tells');
like($browser->text('#live'), qr/Redis is unavailable/, 'announced');
$browser->fill('.control input', 5);
$browser->press('Enter');
eventually { $browser->text('.control ~ .said') =~ /^Failed: .*Redis/ }
    'refused, with the sentence of the API';
# less than the three seconds of a reader
$browser->evaluate('settings.old = 1000');
eventually { $browser->evaluate('document.body.className') eq 'old' }
    'fleet figures old';
like($browser->text('#banners'), qr/Fleet figures are \d+ s old, those of this/,
    'age told');
$browser->screenshot('broken-redis-1400');
$browser->scheme('dark');
$browser->size(360, 780);
$browser->screenshot('broken-redis-360-dark');
$browser->size(1400, 600);

$browser->evaluate('settings.old = 1e9');
$redis->start;
eventually { $browser->count('.banner') == 0 } 'no banner';
is($browser->evaluate('document.body.className'), '', 'figures as before');
is_deeply([grep { !/status of 503/ } $browser->problems], [], 'no error');

# the node

$browser->evaluate('settings.old = 1000');
$node->stop;
eventually { $browser->text('#banners') =~ /^Node n1 cannot be read\./ }
    'a banner';
is($browser->evaluate('document.body.className'), 'old old-node', 'all old');
like($browser->text('#banners'), qr/All figures are \d+ s old/, 'age told');
like($browser->evaluate('document.title'), qr/unreachable/, 'title tells');
# the pauses before the nth failure: 500, 1000 ... ms
wait_for { $browser->evaluate('poller.failures') > 1 };
ok($browser->evaluate('250 * (2 ** poller.failures - 2)
    < performance.now() - poller.at + 50'), 'asks less and less');
is_deeply([$browser->findings], [], 'nothing serious');
$browser->screenshot('broken-node-1400-dark');

$browser->evaluate('settings.old = 1e9');
$node->start;
$browser->evaluate('window.dispatchEvent(new Event("online"))');
eventually { $browser->count('.banner') == 0 } 'back by itself';
is($browser->count('.details'), 1, 'still open');
is_deeply([grep { !/ERR_(?:CONNECTION|EMPTY)/ } $browser->problems], [],
    'no other error');

done_testing();
