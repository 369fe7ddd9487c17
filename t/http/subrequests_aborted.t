#!/usr/bin/perl

# How a counted subrequest may end beside being served: refused, too late, or
# with its request, while it waits or while it is served. Nothing is left of
# it, and the request goes on as nginx has it. One that is not counted wants
# nothing at all.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Http2;
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
    dsem_subrequests on;
    dsem_log_level info;
    log_subrequest on;
    ssi on;
    add_header X-Dsem $dsem_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT2%% http2;
        location /plain {
            dsem one limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /auth/refused {
            auth_request /sub;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /auth/late {
            auth_request /sub/late;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /auth/waits {
            auth_request /sub/waits;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /page/ {
            root %%DIR%%;
        }
        location /sub {
            internal;
            dsem one limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /sub/late {
            internal;
            dsem one limit=1 queue=5 timeout=100ms;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /sub/waits {
            internal;
            dsem one limit=1 queue=5 timeout=30s;
            proxy_pass http://%%UPSTREAM%%/?hang=1;
        }
        location /sub/off {
            internal;
            dsem one limit=1;
            dsem_subrequests off;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /sub/main {
            internal;
            dsem one limit=1 queue=5 timeout=30s;
            error_page 404 = /sub/instead;
            proxy_intercept_errors on;
            proxy_pass http://%%UPSTREAM%%/?status=404;
        }
        location /sub/instead {
            internal;
            dsem one limit=1 queue=5 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

mkdir $node->dir . '/page';

sub page {
    my ($name, @included) = @_;
    open my $page, '>', $node->dir . "/page/$name.html" or die "$name: $!";
    print $page qq(<!--# include virtual="/sub/$_" -->|) for @included;
    close $page;
}

page(refused => 'x');
page(waits => 'waits', 'waits');
page(off => 'off?hang=1', 'off?hang=1');
page(redirected => 'main', 'main');

my $holder = $node->begin('/plain?hang=1');
wait_for { state() eq '1 0' };

# refused, and too late

my $auth = $node->get('/auth/refused');
is($auth->status, 500, 'auth_request rejected: 500');
is($auth->header('Retry-After'), undef, 'no Retry-After');
is($node->get('/auth/late')->status, 500, 'auth_request timed out');
my $page = $node->get('/page/refused.html');
is($page->status, 200, 'page without include');
like($page->body, qr/503 Service.*\|$/s, 'refusal in page');
is($page->header('Retry-After'), undef, 'no Retry-After');
is_deeply([map { "$_->{request_uri} $_->{dsem_status}" }
        grep { $_->{dsem_status} } $node->access_log], [
    '/auth/refused REJECTED', '/auth/late TIMEOUT',
    '/page/refused.html REJECTED'
], 'each refusal logged once');
is(state(), '1 0', 'nothing left');

# a client that leaves while its subrequests wait, and while they are served

my @ways = (
    [closes => sub { $node->begin($_[0]) }, sub { $_[0]->close }],
    [resets => sub { $node->begin($_[0]) }, sub { $_[0]->abort }],
    ['resets its stream' => sub {
        my $h2 = Dsem::Http2->new($node->raw(2));
        return [$h2, $h2->get($_[0])];
    }, sub { $_[0][0]->rst($_[0][1]) }],
);

for my $case (['/auth/waits', 1], ['/page/waits.html', 2]) {
    my ($path, $wants) = @$case;
    for my $way (@ways) {
        my ($name, $begin, $end) = @$way;
        my $client = $begin->($path);
        eventually { state() eq "1 $wants" } "$path: $wants wait";
        $end->($client);
        eventually { state() eq '1 0' } "$name: no ticket waiting";
    }
}
$up->release_all;
is($holder->wait->status, 200, 'holder served');

for my $case (['/auth/waits', '1 0'], ['/page/waits.html', '1 1']) {
    my ($path, $state) = @$case;
    for my $way (@ways) {
        my ($name, $begin, $end) = @$way;
        my $client = $begin->($path);
        eventually { $up->now == 1 && state() eq $state } "$path: served";
        $end->($client);
        eventually { $up->now == 0 && state() eq '0 0' }
            "$name: all permits returned";
    }
}

# a subrequest that is redirected takes its permit again

$up->reset;
$page = $node->get('/page/redirected.html');
is($page->status, 200, 'redirected: served');
is(() = $page->body =~ m{/instead}g, 2, 'other location answered');
is($up->peak, 1, 'one at a time');
eventually { state() eq '0 0' } 'nothing left';

# not counted

$up->reset;
my $off = $node->begin('/page/off.html');
eventually { $up->now == 2 } 'off: two at once';
is(state(), '0 0', 'no permit taken');
$up->release_all;
is($off->wait->status, 200, 'request served');
is($off->header('X-Dsem') // '', '', 'no status reported');

done_testing();

# permits held and tickets waiting
sub state {
    my $state = $redis->cmd('HMGET', 'dsem:{0}:s:one', 'held', 'waiting');
    return join ' ', map { $_ // 0 } @$state;
}
