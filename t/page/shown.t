#!/usr/bin/perl

# What the page shows of a fleet of two nodes: semaphores with their permits,
# waiting and refused requests, holders by node; names are text, whatever is in
# them. Nothing on it breaks its own policy, and axe-core finds nothing serious:
# light, dark, on a phone.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
# while permits are recalled the queue may be longer than "queue"
dsem_reuse off;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem reports limit=5 queue=2 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /named {
        dsem $http_x_name limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ {
        dsem_api;
    }
}
EOF_CONF

$browser->open($node->url('/dsem/'));

$browser->evaluate('settings.poll = 250');
eventually { $browser->text('#node') eq 'n1' } 'node named';
eventually { $browser->text('#redis') =~ /^available for/ } 'Redis available';
eventually { $browser->text('#age') =~ /^\d\.\d s old/ } 'age of the figures';
eventually { $browser->text('#fleet') eq '2 workers on 2 nodes' }
    'fleet counted';
like($browser->evaluate('document.title'), qr/^n1 dsem$/, 'quiet title');
$browser->screenshot('empty-1400');

# whose figures they are, as a screen reader has it
is($browser->evaluate('[...$("scopes").cells].map((cell) =>
    cell.colSpan).join()'),
    $browser->evaluate('[1, FLEET.length, COLUMNS.length - FLEET.length - 1]
        .join()'), 'heads of fleet and node');

# the bar follows the load

my @held = map { $_->begin('/?hang=1') } $node, $node, $other;
eventually { row('reports', 'used') eq '3' } 'permits of both nodes';
is(row('reports', 'limit'), '5', 'limit');
is(row('reports', 'permits'), '2 free', 'free permits');
is($browser->evaluate(of('reports', 'querySelector(".bar .used").share')),
    '60.00%', 'bar at three of five');

push @held, map { $node->begin('/?hang=1') } 1 .. 4;
wait_for { $up->now == 5 };
wait_for { $node->get('/dsem/semaphores')->body =~ /"waiting":2/ };
is($node->get('/')->status, 503, 'one is refused');
my $evil = '"><script>alert(1)</script>';
my @named = ($evil, "b\xc3\xbcro", "a\tb", '<img src=x onerror=alert(1)>');
$node->get('/named', 'X-Name' => $_) for @named;

eventually { row('reports', 'waiting') eq '2' } 'two wait';
is(row('reports', 'permits'), 'full', 'no permit left');
eventually { row('reports', 'refused') =~ /^1\s+1 full$/ } 'refused by reason';
like(row('reports', 'refused-hour'), qr/^1\s+1 full$/, 'refused in the hour');
like($browser->text('#node-now-more'), qr/^1 refused in the last \d+ s$/,
    'and since the page is open');
ok($browser->evaluate(of('reports', 'classList.contains("bad")')),
    'row marked');
isnt($browser->evaluate(of('reports',
    'querySelector(".of-hour .refused").getAttribute("d")')), '',
    'refusal in the chart');
like($browser->evaluate('document.title'), qr/1 refusing/, 'title tells');
like($browser->text('#live'), qr/Refusing requests: reports/, 'announced');

# holders

$browser->click('tr.row button >> text=reports');
eventually { $browser->text('.holders') =~ /worker 0.*worker 0/s }
    'a worker of each node';
like($browser->text('.holders'),
    qr/n1 1 worker, oldest hold [^\n]+\s4\s+0\s+2\s.*n2 1 worker\s+1\s+0\s+0\s/s,
    'permits of each node');
like($browser->text('.holders'), qr/\d\.\d s/, 'lease left');
like($browser->text('.details'), qr/Refused, full\s+1\n/, 'counts');
like($browser->text('.details'), qr/read only/, 'nothing to change here');
is($browser->count('.details button, .details input'), 0, 'no control');
$browser->screenshot('busy-1400');
is_deeply([$browser->findings], [], 'nothing serious');
$browser->scheme('dark');
is_deeply([$browser->findings], [], 'nothing serious, dark');
$browser->screenshot('busy-1400-dark');
$browser->size(360, 1500);
$browser->screenshot('busy-360-dark');
$browser->scheme('light');
is_deeply([$browser->findings], [], 'nothing serious, phone');
$browser->screenshot('busy-360');
$browser->size(768, 1000);
$browser->screenshot('busy-768');
$browser->size(1400, 900);
$browser->press('Escape');
is($browser->count('.details'), 0, 'closed by Escape');
is($browser->evaluate('document.activeElement.innerText'), 'reports',
    'focus is back');

# any name is text

eventually { $browser->count('tr.row') == 5 } 'a row for each name';
my @shown = @{ $browser->evaluate(
    '[...document.querySelectorAll(".of-name bdi")].map(b => b.innerText)') };
is_deeply([sort @shown], [sort $evil, "b\xfcro", 'a%09b', $named[3],
    'reports'], 'names as text');
is($browser->count('script'), 1, 'no script of a name');
is($browser->count('main img'), 0, 'no element of a name');

# filter, views and order

$browser->fill('#filter', 'SCRIPT');
is($browser->count('tr.row'), 1, 'filtered by name');
$browser->fill('#filter', 'nothing like it');
like($browser->text('#nothing'), qr/^No semaphore matches/, 'none matches');
$browser->fill('#filter', '');
$browser->click('#views button >> text=Full');
is($browser->count('tr.row'), 1, 'only full ones');
$browser->click('#views button >> text=All');
$browser->click('#columns button >> text=In use');
is(first_row(), 'reports', 'largest first');
$browser->click('#columns button >> text=In use');
isnt(first_row(), 'reports', 'and turned round');
is($browser->evaluate('document.querySelector("[aria-sort]").ariaSort'),
    'descending' =~ s/de/a/r, 'order told');

eventually { $up->release_all; !grep { !$_->done } @held } 'all served';
eventually { row('reports', 'used') eq '0' } 'the bar falls';

is_deeply([$browser->problems], [], 'no error, nothing against the policy');

done_testing();

# a cell's text without its label
sub row {
    my ($name, $column) = @_;
    my $value = $browser->evaluate("table.rows.get('$name')"
        . "?.cells['$column'].innerText") // return '';
    return $value =~ s/^\s+|\s+$//gr;
}

sub of {
    my ($name, $what) = @_;
    return "table.rows.get('$name').node.$what";
}

sub first_row {
    return $browser->evaluate('document.querySelector("tr.row bdi")'
        . '.textContent');
}
