#!/usr/bin/perl

# With "log_subrequest on" the log phase also runs for subrequests: the permits
# of the request stay until the request itself is logged.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
log_subrequest on;
lingering_close off;
server {
    listen 127.0.0.1:%%PORT%%;
    root %%DIR%%;
    location = /page.html {
        dsem one limit=1 queue=10 timeout=30s;
        ssi on;
    }
    location /included {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

open my $page, '>', $node->dir . '/page.html' or die "page.html: $!";
print $page '<!--# include virtual="/included?t=1" -->|'
    . '<!--# include virtual="/included?hang=1" -->';
close $page;

my $request = $node->begin('/page.html');
eventually { $up->served == 1 && $up->now == 1 } 'second subrequest running';
eventually { scalar($node->access_log) == 1 } 'first one logged';
is(held(), 1, 'permit held');

my $next = $node->begin('/page.html');
eventually { waiting() == 1 } 'next request queued';
is($up->now, 1, 'no subrequest of it');
$up->release_all;
is($request->wait->status, 200, 'request served');
# its first subrequest may be the one that is seen
wait_for { $up->release_all; $next->done } 15, 'the end of the next request';
is($next->wait->status, 200, 'next request served');
eventually { held() == 0 } 'no permit held';

done_testing();

sub held { $t->state->held('one') }
sub waiting { $t->state->waiting('one') }
