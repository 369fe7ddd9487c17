#!/usr/bin/perl

# An unbuffered page keeps its permit until its includes are done, because they
# hold up its output; also where the page itself ends before them.

use warnings;
use strict;

use IO::Socket::INET;
use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5)
    or die "listen: $!";

my $node = $t->node('n1', <<'EOF_CONF', PAGES => $listen->sockport);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem one limit=1 queue=10 timeout=30s;
    dsem_subrequests on;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /page {
            ssi on;
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PAGES%%;
        }
        location / {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $page = $node->begin('/page');
my $from = $listen->accept;
sysread $from, my $request, 1000;
syswrite $from, "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n"
    . '<!--# include virtual="/included?hang=1" -->';
eventually { $up->now == 1 } 'include requested';
is(state(), '1 0', "page's permit covers include");
my $next = $node->begin('/?hang=1');
eventually { state() eq '1 1' } 'for which another waits';
close $from;
my $begun = now;
wait_for { now > $begun + 0.5 };
is(state(), '1 1', 'held until include ends');
$up->release_all;
is($page->wait->status, 200, 'page served');
eventually { $up->now == 1 } 'other request next';
$up->release_all;
is($next->wait->status, 200, 'request served');
is($up->peak, 1, 'one at a time');

done_testing();

# permits held and tickets waiting
sub state {
    my $state = $redis->cmd('HMGET', 'dsem:{0}:s:one', 'held', 'waiting');
    return join ' ', map { $_ // 0 } @$state;
}
