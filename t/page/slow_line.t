#!/usr/bin/perl

# The page over a slow line: an answer may take longer than the page waits for
# silence, as long as more of it comes. One that stops in the middle is none.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
location / {
    dsem $arg_name limit=2;
    empty_gif;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my $line = $t->proxy($node->url('/') =~ m{//([^/]+)});
is $node->get("/?name=$_")->status, 200, "name $_" for 1 .. 4;
$browser->open('http://' . $line->address . '/dsem/');
eventually { $browser->count('tr.row') == 4 } 'a row for each name';

# some 4 KB, so it takes more than five seconds, with a silence of three allowed

$browser->evaluate('Object.assign(settings, { poll: 100, silence: 3000 })');
$line->slice(60, 0.1);
is $node->get('/?name=5')->status, 200, 'a new name';
eventually { $browser->count('tr.row') == 5 } 'its row';
cmp_ok length $node->get('/dsem/semaphores')->body, '>', 4000, 'a long answer';
is_deeply [$browser->problems], [], 'no error';

$browser->evaluate('settings.old = 1000');
$line->slice(0);
$line->freeze('s2c');
eventually { $browser->text('#banners')
    =~ /^Node n1 cannot be read\. .*: no answer for 3 s\./ } 'silence';
$line->thaw;
$browser->evaluate('settings.old = 1e9');
eventually { $browser->count('.banner') == 0 } 'back by itself';

$t->done;
