#!/usr/bin/perl

# In one turn of the event loop a request of a dry run has its grant, and its
# response redirects it into a location with the same semaphore: it has the
# permit there, and is not notified of the grant any more; the time that it has
# waited begins with its first ask.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem one limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /tried {
    dsem one limit=1 queue=10 timeout=60s;
    dsem_dry_run on;
    proxy_intercept_errors on;
    error_page 418 = @kept;
    error_page 410 = @tried;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
location @kept {
    dsem one limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location @tried {
    dsem one limit=1 queue=10 timeout=60s;
    dsem two limit=1 queue=10 timeout=60s;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $begun = now;
my $a = $t->node('a', $conf);
my $b = $t->node('b', $conf);
my ($worker) = $a->workers;

for my $status (418, 410) {
    my $holder = $b->begin('/?hang=1', 'X-Nonce' => 'holder');
    wait_for { $up->now == 1 } 15, 'the holder';
    my $tried = $a->begin("/tried?hang=1&status=$status", 'X-Nonce' => 'tried');
    wait_for { $t->state->waiting('one') == 1 && $up->now == 2 } 15,
        'the request at the backend, its ticket in the queue';

    $a->freeze;
    $up->release_nonce('holder');
    is $holder->wait->status, 200, 'the permit comes free';
    wait_for { $t->state->counts('one') eq '1 0' } 15, 'the grant';
    my $served = $up->served;
    $up->release_nonce('tried');
    wait_for { $up->served > $served } 15, 'the response';
    $a->thaw;

    # the backend answers the second time as it does the first
    wait_for { $up->now == 1 } 15, 'the request, redirected';
    $up->release_all;
    is $tried->wait->status, $status, "$status: served";
    is_deeply [$a->workers], [$worker], 'by the same worker';
}

my ($waited) = $a->get('/dsem/metrics')->body
    =~ /^dsem_wait_seconds_sum\{semaphore="one"\} (\S+)$/m;
cmp_ok $waited, '<=', 2 * (now - $begun), 'the times waited';

$t->done;
