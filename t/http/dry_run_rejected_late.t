#!/usr/bin/perl

# In one turn of the event loop a request of a dry run is rejected, and its
# response ends, or redirects it: it is one that would have been rejected.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 60s;
dsem_reuse off;
location / {
    dsem one limit=1 queue=0;
    proxy_pass http://%%UPSTREAM%%;
}
location /tried {
    dsem one limit=1 queue=0;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
location /logged {
    dsem one limit=1 queue=0;
    dsem_dry_run on;
    dsem_release log;
    proxy_pass http://%%UPSTREAM%%;
}
location /redirected {
    dsem one limit=1 queue=0;
    dsem_dry_run on;
    proxy_intercept_errors on;
    error_page 418 = @other;
    proxy_pass http://%%UPSTREAM%%;
}
location @other {
    dsem two limit=9;
    empty_gif;
}
location /next {
    dsem next limit=9;
    empty_gif;
}
location /turn {
    return 204;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF
my $a = $clock->node('a', $conf, REDIS => $proxy->address);
my $b = $t->node('b', $conf);
my $holder = $b->begin('/?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now == 1 } 15, 'the holder';

# counts what Redis would have rejected
my $n = 0;

sub late {
    my ($path) = @_;
    # no reply is late, nor will be: each request asks at once
    $clock->stop;
    is $a->get('/next')->status, 200, 'Redis replies';
    wait_for { !$t->state->held('next') } 15, 'its permit is back';
    $proxy->freeze('s2c');
    my $request = $a->begin($path, 'X-Nonce' => "late$n");
    wait_for { $up->now == 2 } 15, 'the request at the backend';
    # by the same connection
    my $next = $a->begin('/next');
    wait_for { $t->state->held('next') } 15, 'Redis has replied';
    # an event that waits stands before the reply, with what comes to it later
    is $a->get('/turn')->status, 204, 'nothing waits for the worker';
    my $passed = $proxy->bytes->{s2c};
    $a->freeze;
    $proxy->thaw('s2c');
    wait_for { $proxy->bytes->{s2c} > $passed } 15, 'the reply';
    my $served = $up->served;
    $up->release_nonce("late$n");
    wait_for { $up->served > $served } 15, 'the response';
    $a->thaw;
    $clock->go;
    is $_->wait->status, 200, "$path: served" for $request, $next;
    $n++;
    like $a->get('/dsem/metrics')->body,
        qr/semaphore="one",result="rejected_dry_run"\} $n$/m, 'counted';
    return $a->logged($request)->{dsem_status};
}

for my $path ('/tried', '/logged') {
    is late("$path?hang=1"), 'REJECTED_DRY_RUN', 'the variable';
    is scalar($a->grep_log(qr/dsem rejected, dry run/)), $n, 'the log';
}
is late('/redirected?hang=1&status=418'), 'PASSED', 'that of the last location';

$up->release_all;
$holder->wait;
$t->done;
