#!/usr/bin/perl

# The page of a node that has never reached Redis: what it does not know of the
# fleet is a dash, what it knows of itself is shown as such.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $up = $t->upstream;
$redis->stop;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_redis_connect_timeout 100ms;
location / {
    dsem reports limit=5;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my $running = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'admitted by the share of the worker';

$browser->open($node->url('/dsem/'), height => 600);
$browser->evaluate('settings.poll = 250');
eventually { $browser->text('#redis') =~ /^unavailable/ } 'Redis unavailable';
eventually { $browser->count('tr.row') == 1 } 'row of the configuration';
is $browser->text('#fleet'), 'unknown', 'fleet unknown';
is $browser->text('#fleet-now'), "\x{2013} in use, \x{2013} waiting",
    'its figures are dashes';
like $browser->text('#node-now'), qr/^1 in use, 0 waiting, /, 'own permits';
like cell('used'), qr/^\x{2013}\s+here 1$/, 'in use: here';
like cell('waiting'), qr/^\x{2013}\s+here 0$/, 'waiting: here';
like cell('limit'), qr/^\x{2013}\s+conf\. 5$/, 'limit: as configured';
is $browser->count('#nodes[hidden]'), 1, 'no list of nodes';
$browser->screenshot('unknown-1400');
is_deeply [$browser->findings], [], 'nothing serious';

$up->release_all;
is $running->wait->status, 200, 'served';
# the last permit goes back
$redis->start;
eventually { $browser->text('#fleet') eq '1 worker on 1 node' } 'fleet known';
eventually { cell('limit') eq '5' } 'and its figures';

$t->done;

sub cell {
    my ($column) = @_;
    my $text = $browser->evaluate('table.rows.get("reports")'
        . "?.cells['$column'].innerText") // '';
    return $text =~ s/^\s*(?:Limit|In use|Waiting)?\s+|\s+$//gr;
}
