#!/usr/bin/perl

# A mirror slower than the mirrored request delays the log phase of that
# request, but not the release of its permit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $mirrored = $t->upstream;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF', MIRRORED => $mirrored->address);
dsem one limit=1 queue=10 timeout=30s;
lingering_close off;
server {
    listen 127.0.0.1:%%PORT%%;
    location /response {
        mirror /mirrored;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /log {
        dsem_release log;
        mirror /mirrored;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /mirrored {
        internal;
        proxy_pass http://%%MIRRORED%%/?hang=1;
    }
}
EOF_CONF

for my $path ('/response', '/log') {
    my $late = $path eq '/log';
    $up->reset;
    my $first = $node->begin("$path?hang=1", -method => 'POST',
        -body => 'x' x 100);
    wait_for { $up->now == 1 && $mirrored->now == 1 };
    my $next = $node->begin("$path?t=1");
    eventually { waiting() == 1 } "$path: next request queued";

    $up->release_all;
    my $ended = now;
    like($first->raw->read, qr/^HTTP\/1.1 200/, 'response complete');
    wait_for { $next->done || $late && now > $ended + 0.5 };
    ok($late ? !$next->done : $next->done,
        $late ? 'the next one still waits' : 'next request at upstream');
    cmp_ok(took($ended), '<', 15, 'at once') unless $late;
    is($mirrored->served, 0, 'mirror still running');
    is($node->access_log + 0, 0, 'request not yet logged');

    $mirrored->release_all;
    is($next->wait->status, 200, 'next one served') if $late;
    eventually { $mirrored->release_all; $node->access_log == 2 }
        'logged when the mirror is ready';
    is($up->peak, 1, 'one at a time');
    $mirrored->reset;
    $node->clear_logs;
}

done_testing();

sub waiting { $t->state->waiting('one') }
