#!/usr/bin/perl

# 500 semaphores: nothing is written where nothing changes, nothing sticks out
# at any width, and the keyboard is enough.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_connections 2048;
location / {
    dsem tenant:$arg_tenant limit=$arg_limit;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

my @held = map { $node->begin("/?tenant=$_&limit=3&hang=1") }
    map { ($_) x (1 + $_ % 5) } 1 .. 24;
my $load = $t->load(urls => [map { $node->url("/?tenant=$_&limit=4") }
    25 .. 500], clients => 20, requests => 476);
is_deeply($load->{statuses}, { 200 => 476 }, 'passed');

$browser->open($node->url('/dsem/'));
eventually { $browser->count('tr.row') == 500 } 'a row for each';
eventually { $browser->text('#views') =~ /Only busy\s*24/ } 'some are busy';

# polls that change little write little

$browser->evaluate('settings.poll = 250');
$browser->evaluate(<<'EOF_JS');
    window.written = 0;
    new MutationObserver((list) => { written += list.length; }).observe(
        document.querySelector('tbody'), { subtree: true, childList: true,
        attributes: true, characterData: true });
    window.polls = 0;
    const { read } = poller;
    poller.read = async function () {
        await read.call(this);
        polls++;
    };
EOF_JS
# the rates of the load fall to zero meanwhile
eventually {
    wait_for { $browser->evaluate('polls') >= 2 } 15, 'two polls';
    $browser->evaluate('written < 250 * polls || (written = polls = 0)');
} 'little written', 30;

# looks

$browser->screenshot('many-1400');
$browser->click('#views button >> text=Only busy');
is($browser->count('tr.row'), 24, 'only busy');

# by keyboard: to the first name, open, to the limit, close

$browser->evaluate('document.activeElement.blur(); $("filter").focus()');
for (1 .. 40) {
    $browser->press('Tab');
    last if $browser->evaluate('document.activeElement.closest("tr.row")
        !== null');
}
is($browser->evaluate('getComputedStyle(document.activeElement).outlineStyle'),
    'solid', 'focus visible');
$browser->press('Enter');
is($browser->count('.details'), 1, 'opened');
$browser->press('Tab');
is($browser->evaluate('document.activeElement.id'), 'limit', 'limit reached');
eventually { $browser->text('.holders') =~ /worker 0/ } 'holders read';

for my $width (360, 768) {
    $browser->size($width, $width == 360 ? 1600 : 1000);
    is($browser->evaluate('document.documentElement.scrollWidth'), $width,
        "$width: nothing sticks out");
    is($browser->evaluate('[...document.querySelectorAll("tr, td, section")]
        .filter((one) => one.clientWidth > 0
            && one.scrollWidth > one.clientWidth).length'), 0,
        "$width: nor out of a row");
    $browser->screenshot("many-$width");
}
$browser->press('Escape');
is($browser->count('.details'), 0, 'closed');
is_deeply([$browser->problems], [], 'no error, nothing against the policy');

$up->release_all;

done_testing();
