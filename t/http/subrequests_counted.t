#!/usr/bin/perl

# "dsem_subrequests on": a subrequest takes permits of its own and gives them
# back when it is done, and none of those that its request keeps until then:
# that would be to wait for itself. With a limit of one, so that each mistake
# is a deadlock.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem one limit=1 queue=50 timeout=30s;
    dsem_subrequests on;
    log_subrequest on;
    lingering_close off;
    proxy_set_header X-Sem one;
    root %%DIR%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /auth_request {
            auth_request /sub;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /mirror {
            mirror /sub;
            proxy_pass http://%%UPSTREAM%%;
        }
        # a page that is limited itself, and keeps its permit
        location /page {
            ssi on;
            try_files /page.html =404;
        }
        location /free_page {
            dsem off;
            ssi on;
            try_files /page.html =404;
        }
        location /proxied_page {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT2%%/page.html;
        }
        location /large_page {
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT2%%/large.html;
        }
        location /unbuffered_page {
            ssi on;
            proxy_buffering off;
            proxy_pass http://127.0.0.1:%%PORT2%%/large.html;
        }
        location /log {
            dsem_release log;
            location /log/auth_request {
                auth_request /sub_log;
                proxy_pass http://%%UPSTREAM%%;
            }
            location /log/mirror {
                mirror /sub_log;
                proxy_pass http://%%UPSTREAM%%;
            }
            location /log/proxied_page {
                ssi on;
                proxy_pass http://127.0.0.1:%%PORT2%%/page_log.html;
            }
        }
        location /sub {
            internal;
            proxy_pass http://%%UPSTREAM%%/sub?t=10;
        }
        location /sub_log {
            internal;
            dsem_release log;
            proxy_pass http://%%UPSTREAM%%/sub?t=10;
        }
        location /sub_in_sub {
            internal;
            ssi on;
            proxy_pass http://127.0.0.1:%%PORT2%%/page.html;
        }
        location /nested {
            dsem off;
            ssi on;
            try_files /nested.html =404;
        }
    }
    server {
        listen 127.0.0.1:%%PORT2%%;
        dsem off;
        ssi off;
    }
}
EOF_CONF

sub page {
    my ($name, @parts) = @_;
    open my $page, '>', $node->dir . "/$name" or die "$name: $!";
    print $page @parts;
    close $page;
}

my $include = '<!--# include virtual="/sub" -->';
my $filler = 'x' x 999 . "\n";
page('page.html', $include, '|', $include);
page('page_log.html', $include =~ s/sub/sub_log/r x 2);
page('large.html', $include, ($filler) x 2000, $include);
page('nested.html', $include =~ s/sub/sub_in_sub/r x 2);

# path => [how many requests the upstream sees of each, how many at once]:
# what lives on the permit of its request may be there beside it

my %seen = (
    '/auth_request?t=10' => [2, 1], '/mirror?t=10' => [2, 1],
    '/page' => [2, 2], '/free_page' => [2, 1], '/proxied_page' => [2, 1],
    '/large_page' => [2, 1], '/unbuffered_page' => [2, 1],
    '/nested' => [4, 1],
    '/log/auth_request?t=10' => [2, 1], '/log/mirror?t=10' => [2, 2],
    '/log/proxied_page' => [2, 2],
);

for my $path (sort keys %seen) {
    my ($requests, $peak) = @{ $seen{$path} };
    $up->reset;
    is($node->get($path)->status, 200, "$path: no deadlock");
    eventually { $up->served == $requests } 'all subrequests served';
    wait_for { state() eq '0 0' };

    my $load = $t->load(urls => [$node->url($path)], clients => 5,
        requests => 10);
    is_deeply($load->{statuses}, { 200 => 10 }, 'no deadlock under load');
    cmp_ok($load->{max}, '<', 25, 'no timeout');
    eventually { $up->served == 11 * $requests } 'each request served';
    is($up->peak('one'), $peak, $peak == 1 ? 'one at a time'
        : 'kept permits do not block');
    eventually { state() eq '0 0' } 'all permits returned';
}

is(scalar $node->grep_log(qr/\[(?:warn|error|crit)\].*dsem/), 0,
    'no warning logged');

done_testing();

# permits held and tickets waiting
sub state {
    my $state = $redis->cmd('HMGET', 'dsem:{0}:s:one', 'held', 'waiting');
    return join ' ', map { $_ // 0 } @$state;
}
