#!/usr/bin/perl

# A request that would have waited in a location with a dry run, and comes to
# one without: where it really waits, its status is that of a wait.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Dsem "$dsem_status $dsem_name" always;
    location /tried {
        dsem one limit=1 queue=10 timeout=30s;
        dsem_dry_run on;
        proxy_intercept_errors on;
        error_page 418 = @enforced;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @enforced {
        dsem two limit=1 queue=10 timeout=30s;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /one {
        dsem one limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /two {
        dsem two limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    return 200 "enforced\n";
}
EOF_CONF

for my $full (0, 1) {
    my $one = $node->begin('/one?hang=1', 'X-Nonce' => 'one');
    wait_for { $up->now == 1 } 15, 'the limit of the dry run reached';
    # a late reply has no effect: the request waits for it
    $clock->stop;
    my $request = $node->begin('/tried?hang=1&status=418',
        'X-Nonce' => 'tried');
    wait_for { $t->state->waiting('one') == 1 && $up->now == 2 };
    $up->release_nonce('one');
    is($one->wait->status, 200, 'permit released');
    eventually { $t->state->counts('one') eq '1 0' } 'permit granted meanwhile';
    # the worker has that reply before the one for another request
    is($node->get('/two?t=1')->status, 200, 'the worker knows');

    my $two;
    if ($full) {
        $two = $node->begin('/two?hang=1', 'X-Nonce' => 'two');
        wait_for { $t->state->counts('two') eq '1 0' && $up->now == 2 };
    }
    $up->release_nonce('tried');
    if ($full) {
        eventually { $t->state->counts('two') eq '1 1' } 'request waits';
        $up->release_all;
        is($two->wait->status, 200, 'permit released');
    }
    is($request->wait->body, "enforced\n", 'request served');
    $clock->go;
    is($request->header('X-Dsem'), $full ? 'QUEUED two' : 'QUEUED_DRY_RUN one',
        $full ? 'it has waited' : 'it would have waited');
}

done_testing();
