#!/usr/bin/perl

# The page shows the busiest keys of a fair queue below its row, as text,
# whatever is in them. Below the row of another semaphore there are none.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
location / {
    dsem shared limit=2 queue=50 timeout=60s fair=$http_x_key;
    proxy_pass http://%%UPSTREAM%%;
}
location /plain {
    dsem ordered limit=2 queue=50 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my @held = map { $node->begin("/?hang=1&n=$_", 'X-Key' => 'acme') } 1, 2;
wait_for { $up->now == 2 } 15, 'holders';
my @waiting = map { $node->begin("/?hang=1&n=$_", 'X-Key' => '<b>big') }
    1 .. 5;
push @waiting, $node->begin('/?hang=1');
my $plain = $node->begin('/plain?hang=1');
wait_for { $t->state->waiting('shared') == 6 && $up->now == 3 } 15, 'queue';

$browser->open($node->url('/dsem/'));
$browser->evaluate('settings.poll = 250');

$browser->click('tr.row button >> text=shared');
eventually { $browser->text('.details') =~ /Fair by key\s+this node/i }
    'section of keys';
eventually { $browser->text('.details')
    =~ /<b>big\s+0 in use, 5 waiting\s+acme\s+2 in use, 0 waiting/ }
    'keys with their figures' or diag $browser->text('.details');
like $browser->text('.details'), qr/\(no key\)\s+0 in use, 1 waiting/,
    'empty key';
is $browser->count('.details b'), 0, 'keys are text';
$browser->screenshot('keys-1400');

$browser->click('tr.row button >> text=ordered');
eventually { $browser->text('.details') =~ /Holders/ } 'other row open';
unlike $browser->text('.details'), qr/Fair by key/i, 'no section of keys';

$_->abort for @waiting;
$up->release_all;
$_->wait for @held, $plain;

$t->done;
