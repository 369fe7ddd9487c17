#!/usr/bin/perl

# A site that sends a Content-Security-Policy of its own with every response: a
# browser enforces both, and the page stays empty. An add_header in the location
# ends the inheritance, and the page is shown.

use lib 't/lib';
use Dsem::Browser qw(browser_missing);
use Dsem::Test;

plan skip_all => browser_missing() if browser_missing();

my $t = Dsem::Test->new;
my $browser = Dsem::Browser->new($t);
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
add_header Content-Security-Policy "default-src 'self'" always;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem reports limit=2;
        empty_gif;
    }
    location /inherited/ {
        dsem_api;
    }
    location /dsem/ {
        dsem_api;
        add_header X-Content-Type-Options nosniff;
    }
}
EOF_CONF

is $node->get('/')->status, 200, 'a semaphore';
$browser->open($node->url('/inherited/'));
eventually { grep { /Content Security Policy/ } $browser->problems }
    'the browser says why';
# a constant of the script
is $browser->evaluate('typeof settings'), 'undefined',
    'the script does not run';
is $browser->text('#redis'), 'reading', 'nothing is shown';
$browser->open($node->url('/dsem/'));
is $browser->evaluate('typeof settings'), 'object', 'the script runs';
eventually { $browser->count('tr.row button') == 1 } 'a row';
is_deeply [$browser->problems], [], 'nothing against the policy';

$t->done;
