#!/usr/bin/perl

# A request that has waited comes to a dry run, and leaves it before the
# verdict: it was queued, whether it ends there or passes another semaphore.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
location / {
    dsem one limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /first {
    dsem two limit=1 queue=9 timeout=60s;
    try_files /nowhere @then;
}
location @then {
    dsem one limit=1 queue=9 timeout=60s;
    dsem_dry_run on;
    proxy_intercept_errors on;
    error_page 418 = @last;
    add_header X-Dsem $dsem_status always;
    proxy_pass http://%%UPSTREAM%%;
}
location @last {
    dsem three limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /two {
    dsem two limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $one = $node->begin('/?hang=1', 'X-Nonce' => 'one');
wait_for { $up->now == 1 } 15, 'a permit of one is in use';

for my $status (200, 418) {
    my $two = $node->begin('/two?hang=1', 'X-Nonce' => 'two');
    wait_for { $up->now == 2 } 15, 'and that of two';
    my $request = $node->begin("/first?hang=1&status=$status",
        'X-Nonce' => "request$status");
    wait_for { $t->state->waiting('two') == 1 } 15, 'it waits for two';
    $up->release_nonce('two');
    is $two->wait->status, 200, 'two comes free';
    wait_for { $t->state->waiting('one') == 1 && $up->now == 2 } 15,
        'it would wait for one';
    $up->release_nonce("request$status");

    if ($status == 418) {
        # the backend answers the second time as it does the first
        wait_for { $t->state->waiting('one') == 0 && $up->now == 2 } 15,
            'it is redirected';
        $up->release_nonce("request$status");
    }

    is $request->wait->status, $status, 'served';
    is $request->header('X-Dsem'), 'QUEUED', 'the header' if $status == 200;
    is $node->logged($request)->{dsem_status}, 'QUEUED', "$status: the log";
}

$up->release_all;
is $one->wait->status, 200, 'served';

$t->done;
