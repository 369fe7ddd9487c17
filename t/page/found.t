#!/usr/bin/perl

# The page shows a limit that is found: the number and its reason in the table,
# its bounds and a line of its changes in the details. It is no number of the
# configuration, under an order either. A plain limit has none of this.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
location /found {
    dsem found limit=auto min=4 max=6 queue=200 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /plain {
    dsem plain limit=3 queue=5;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

# long requests: what a busy machine adds to their times is little
my $load = $t->load_start(clients => 12, seconds => 300,
    urls => [ $node->url('/found?t=200') ]);
is $node->get('/plain')->status, 200, 'a plain limit';
$browser->open($node->url('/dsem/'));
$browser->evaluate('settings.poll = 250');

eventually { row('found') =~ /^6\s+auto \(bound\)$/ } 'limit and reason', 60;
like row('plain'), qr/^3\s*$/, 'a plain limit has none';

$browser->click('text=found');
eventually { $browser->text('tr.details')
    =~ /found: 6 \([\w ]+\), between 4 and 6\./ } 'bounds in the details';
like $browser->text('tr.details'), qr/In force: \d+, configured: auto, no /,
    'no configured number';
like $browser->evaluate(
    'document.querySelector("tr.details .course")?.getAttribute("d")') // '',
    qr/^M[\d.]+ [\d.]+(?:H[\d.]+V[\d.]+)+$/, 'a line of its changes';
$browser->screenshot('found-1400');
$browser->fill('.control input', 5);
$browser->press('Enter');
eventually { row('found') =~ /^5\s+conf\. auto$/ } 'an order in the table';
eventually { $browser->text('tr.details')
    =~ /In force: 5, configured: auto, ordered: 5, found: 6 / } 'its details';
$browser->click('text=Back to configured (auto)');
eventually { row('found') =~ /^6\s+auto \([\w ]+\)$/ } 'back to the one found';
is_deeply [ $browser->problems ], [], 'no error on the console';
is_deeply [ $browser->findings ], [], 'nothing serious for axe-core';
$load->stop->wait;

$t->done;

sub row {
    my ($name) = @_;
    return $browser->evaluate("[...table.rows.values()].find((row) => row.text"
        . " === '$name')?.cells.limit.innerText ?? ''") // '';
}
