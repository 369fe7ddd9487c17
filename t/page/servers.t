#!/usr/bin/perl

# The page has a bar for each server of a pool, below its row, sets the limit of
# each server, and drains one.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
$t->redis;
my @up = sort { $a->address cmp $b->address } map { $t->upstream } 1 .. 3;
my $servers = join ' ', map {
    'server ' . $_->address . ' fail_timeout=3600;'
} @up;

my $node = $t->node('n1', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream gpus {
    zone gpus 64k;
    $servers
    dsem gpus limit=4/server queue=100 timeout=60s;
}
upstream sizes {
    server @{[ $up[0]->address ]} max_conns=2;
    dsem sizes limit=max_conns;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_set_header X-Node n1;
        proxy_pass http://gpus;
    }
    location /plain {
        dsem plain limit=2;
        empty_gif;
    }
    location /sizes {
        proxy_pass http://sizes;
    }
    location /dsem/ {
        dsem_api write=on;
    }
}
EOF_CONF

is $node->get('/plain')->status, 200, 'a plain semaphore';
is $node->get('/sizes')->status, 200, 'a pool of servers of different sizes';
my @held = map { $node->begin('/?hang=1') } 1 .. 9;
wait_for { $t->state->held('gpus') == 9 } 15, 'nine permits are out';

$browser->open($node->url('/dsem/'));
$browser->evaluate('settings.poll = 250');
eventually { $browser->count('tr.row') == 3 } 'three rows';
$browser->click('tr.row button >> text=plain');
eventually { $browser->text('.details') =~ /In force: 2,/ } 'no pool';
is $browser->evaluate('details.pool.hidden'), 1, 'has no servers';
$browser->click('tr.row button >> text=sizes');
eventually {
    $browser->text('.details') =~ /Each server\. In force: max_conns, /
        && $browser->text('.details') =~ /configured: max_conns, no ordered/
} 'no number for all servers' or diag $browser->text('.details');
like $browser->text('.details .servers'), qr/0 of 2/, 'the server has one';
push @held, $node->begin('/sizes?hang=1');
wait_for { $t->state->held('sizes') == 1 } 15, 'in use';
$browser->fill('.control input', 10);
$browser->press('Enter');
eventually {
    $browser->text('.control ~ .said') eq 'Limit 10 is ordered, max_conns in force.'
} 'an order that is above it' or diag $browser->text('.control ~ .said');
like $browser->text('.details'),
    qr/Each server\. In force: max_conns, configured: max_conns, ordered: 10\./,
    'the order is shown';
$browser->click('.details button >> text=Back to configured');
eventually { $browser->text('.details') =~ /no ordered limit/ } 'ended';
$browser->click('tr.row button >> text=gpus');
my $each = join '\s+', map { quotemeta($_->address) . '\s+3 of 4\s+Drain' } @up;
eventually { $browser->text('.details .servers') =~ /^\s*$each\s*$/ }
    'each server has its figures'
    or diag $browser->text('.details .servers');
$browser->screenshot('servers-used');
is $browser->evaluate('table.rows.get("gpus").cells.limit.big.textContent'),
    '12', 'the limit of the row is that of all';
is permits(), '3 free', 'of all';
is marks(), '', 'no mark';

# a limit is for each server

is $browser->evaluate('details.control.input.value'), '4', 'the limit of each';
$browser->fill('.control input', 2);
$browser->press('Enter');
eventually { $browser->text('.control ~ .said') eq 'Limit 2 is in force.' }
    'set';
$each =~ s/of 4/of 2/g;
eventually { $browser->text('.details .servers') =~ /^\s*$each\s*$/ }
    'each server has it';
eventually {
    $browser->evaluate('table.rows.get("gpus").cells.limit.big.textContent')
        eq '6'
} 'the limit of all is lower';
like $browser->text('.details'),
    qr/Each server\. In force: 2, configured: 4, ordered: 2\./, 'said';
is permits(), '3 above the limit', 'more are in use';
is marks(), 'limit ordered', 'marked';
$browser->click('.details button >> text=Back to configured (4)');
eventually { $browser->text('.details') =~ /no ordered limit/ } 'taken back';

# one is drained, and put back

my $first = quotemeta $up[0]->address;
$browser->click('.details .servers button >> nth=0');
eventually { $browser->text('dialog') =~ /Drain $first\?/ } 'asked first';
$browser->click('#dialog-yes');
eventually {
    $browser->text('.details .servers')
        =~ /$first\s+drained\s+3 of 0\s+Put back\s.*\s3 of 4\s+Drain/s
} 'drained' or diag $browser->text('.details .servers');
is $browser->text('.control ~ .said'), $up[0]->address . ' is drained.', 'said';
is permits(), '2 free', 'of the others';
is marks(), 'limit of a server ordered', 'marked';
like $browser->text('#views'), qr/Full\s*0.*Ordered\s*1/s, 'and counted';
is $browser->evaluate('new Set([...document.querySelectorAll(".servers .bar")]'
    . '.map((bar) => bar.getBoundingClientRect().left)).size'), 1,
    'the bars begin below each other';
$browser->screenshot('servers-drained');
is_deeply [$browser->findings], [], 'nothing serious, drained';
$browser->click('.details .servers button >> nth=0');
eventually {
    $browser->text('.details .servers') =~ /$first\s+3 of 4\s+Drain/
} 'put back';
eventually { marks() eq '' } 'no mark';

# one that has failed

$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held;
$up[0]->refuse('n1');
wait_for { $node->get('/')->status == 502 } 15, 'a try fails';
eventually {
    $browser->text('.details .servers') =~ /$first\s+not usable\s+0 of 4/
} 'marked' or diag $browser->text('.details .servers');

$browser->screenshot('servers-1400');
is_deeply [$browser->findings], [], 'nothing serious';
$browser->size(1280, 1100);
$browser->screenshot('servers-1280');
$browser->size(390, 2200);
$browser->screenshot('servers-390');
is_deeply [$browser->findings], [], 'nothing serious, phone';
is_deeply [$browser->problems], [], 'no error of a script';

$t->done;

sub permits {
    return $browser->evaluate('table.rows.get("gpus").more.textContent');
}

sub marks { return $browser->evaluate('table.rows.get("gpus").marks.innerText') }
