#!/usr/bin/perl

# A hanging backend is found on the page in two clicks: the column "Oldest hold"
# sorts the semaphores by the request that has held a permit for the longest
# time, and the details of the first one name its node.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Clock;
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF');
dsem_lease 1h;
dsem_redis_timeout 1h;
proxy_read_timeout 10h;
server {
    listen 127.0.0.1:%%PORT%%;
    location ~ ^/(?<name>\w+)/ {
        dsem $name limit=10 queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location ^~ /dsem/ {
        dsem_api;
    }
}
EOF_CONF

for my $name (qw(billing mail search)) {
    is $node->get("/$name/")->status, 200, "$name is quick";
}
my $hanging = $node->begin('/search/?hang=1');
wait_for { $up->now == 1 } 15, 'one hangs';
$clock->step(900);
my $quick = $node->begin('/mail/?hang=1');
wait_for { $up->now == 2 } 15, 'another backend works';

$browser->open($node->url('/dsem/'));
$browser->evaluate('settings.poll = 250');
eventually { cell('search') =~ /^15 min\s+mean \d/ } 'beside the mean';
like cell('billing'), qr/^\x{2013}$/, 'none where nothing is held';
ok bold('search'), 'marked';

$browser->click('#columns button >> text=Oldest hold');
is $browser->evaluate('document.querySelector("tr.row bdi").textContent'),
    'search', 'the hanging one is the first';
$browser->click('tr.row button >> nth=0');
eventually { $browser->text('.holders')
    =~ /n1 1 worker, oldest hold 15 min/ } 'its node';
$browser->screenshot('hanging-1400');
is_deeply [ $browser->findings ], [], 'nothing serious for axe-core';
for my $width (360, 768, 1000, 1240) {
    $browser->size($width, 900);
    $browser->screenshot("hanging-$width");
    is $browser->evaluate('document.documentElement.scrollWidth'), $width,
        "fits in $width";
}

$up->release_all;
is $_->wait->status, 200, 'ends' for $hanging, $quick;
eventually { cell('search') =~ /^\x{2013}$/ && !bold('search') } 'no more';
is_deeply [ $browser->problems ], [], 'no error on the console';

$t->done;

# of the column, without its label
sub cell {
    my ($name) = @_;
    return $browser->evaluate("[...document.querySelectorAll('tr.row')].find("
        . "(row) => row.row.name === '$name')?.row.cells.oldest.innerText ?? ''")
        =~ s/^\s+|\s+$//gr;
}

sub bold {
    my ($name) = @_;
    return $browser->evaluate("table.rows.get('$name').cells.oldest"
        . '.classList.contains("some")');
}
