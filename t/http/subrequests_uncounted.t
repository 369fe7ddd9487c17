#!/usr/bin/perl

# Subrequests into a limited location, of a request that has the only permit:
# they are not counted and wait for nothing.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
proxy_set_header X-Sem main;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    root %%DIR%%;
    location /auth_request {
        auth_request /sub;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /mirror {
        mirror /sub;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /ssi {
        ssi on;
        try_files /page.html =404;
    }
    location /sub {
        internal;
        proxy_set_header X-Sem sub;
        proxy_pass http://%%UPSTREAM%%/sub?t=20;
    }
    location /plain {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

open my $page, '>', $node->dir . '/page.html' or die "page.html: $!";
print $page '<!--# include virtual="/sub" -->|<!--# include virtual="/sub" -->';
close $page;

for my $case (['/auth_request', 1, 1], ['/mirror', 1, 1], ['/ssi', 0, 2]) {
    my ($path, $main, $sub) = @$case;
    $up->reset;
    my $alone = $node->get("$path?t=20");
    is($alone->status, 200, "$path: no deadlock");
    is($alone->header('X-Dsem'), 'PASSED', 'request passed');
    cmp_ok($alone->took, '<', 15, 'no wait');
    eventually { $up->served == $main + $sub && $up->now == 0 }
        'all subrequests served';
    wait_for { held() == 0 };

    # the main ones are counted all the same
    $up->reset;
    my $load = $t->load(urls => [$node->url("$path?t=5")], clients => 5,
        requests => 10);
    is_deeply($load->{statuses}, { 200 => 10 }, 'concurrent requests served');
    eventually { $up->served == 10 * ($main + $sub) } 'own subrequests each';
    is($up->peak('main'), $main, 'one main at a time');
    wait_for { held() == 0 };
}

# they pass also while somebody else has the permit, if their main one does;
# auth_request comes before the queue

$up->reset;
my $holder = $node->begin('/plain?hang=1');
wait_for { $up->now == 1 };
my $behind = $node->begin('/auth_request');
eventually { waiting() == 1 } 'main request queued';
is($up->served, 1, 'subrequest ran before');
$up->release_all;
is($_->wait->status, 200, 'request served') for $holder, $behind;
is($behind->header('X-Dsem'), 'QUEUED', 'status is QUEUED');

done_testing();

sub held { $t->state->held('one') }
sub waiting { $t->state->waiting('one') }
