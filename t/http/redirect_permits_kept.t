#!/usr/bin/perl

# Internal redirects: a request keeps the permits that the new location wants
# too, and never takes one twice, so that limit=1 is no deadlock; it gives
# back what the new location does not want before it waits for more; and the
# error page of a refused request is not limited once more.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Dsem "$dsem_status $dsem_name" always;
    root %%DIR%%;
    error_page 503 /sorry;

    # the page of a refused request wants the same permit
    location /refused {
        dsem one limit=1 queue=1 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /late {
        dsem one limit=1 queue=1 timeout=300ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /sorry {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }

    # four ways to the same name, which is not to be had a second time
    location /accel {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_pass http://127.0.0.1:%%PORT2%%/accel;
    }
    location /try_files {
        dsem one limit=1 queue=10 timeout=30s;
        try_files /nowhere @backend;
    }
    location /error_page {
        dsem one limit=1 queue=10 timeout=30s;
        error_page 404 = @backend;
    }
    location /intercepted {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_intercept_errors on;
        error_page 418 = @backend;
        proxy_pass http://127.0.0.1:%%PORT2%%/teapot;
    }
    location /backend {
        dsem one limit=1;
        proxy_pass http://%%UPSTREAM%%/?hang=1;
    }
    location @backend {
        dsem one limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }

    # to another name, to none, to more of it
    location /other {
        dsem one limit=1;
        try_files /nowhere @other;
    }
    location @other {
        dsem other limit=1 queue=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /none {
        dsem one limit=1;
        try_files /nowhere @none;
    }
    location @none {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /more {
        dsem one limit=1;
        try_files /nowhere @more;
    }
    location @more {
        dsem one limit=1;
        dsem other limit=1 queue=1;
        proxy_pass http://%%UPSTREAM%%;
    }

    # served by redirect after a wait
    location /waited {
        dsem one limit=1 queue=2 timeout=30s;
        try_files /nowhere @backend;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location /accel {
        add_header X-Accel-Redirect /backend;
        return 200;
    }
    location /teapot {
        return 418;
    }
    location /sorry {
        return 200 "sorry\n";
    }
}
EOF_CONF

# a refused request is not queued for its error page

eventually { $node->get('/refused')->status == 200 } 'connected';
$node->clear_logs;
my $holder = $node->begin('/refused?hang=1');
eventually { $up->now == 1 } 'limit reached';
my $late = $node->get('/late');
is($late->status, 503, 'refused after the timeout');
is($late->body, "sorry\n", 'error page sent');
is($late->header('X-Dsem'), 'TIMEOUT one', 'reason is TIMEOUT');
cmp_ok($late->took, '<', 15, 'error page not queued');
my $waiting = $node->begin('/waited');
wait_for { state('one') eq '1 1' };
my $full = $node->get('/refused');
is($full->body, "sorry\n", 'error page at full queue');
is($full->header('X-Dsem'), 'REJECTED one', 'reason is REJECTED');
is(scalar $node->grep_log(qr/ dsem (?:timeout|rejected): /), 2,
    'each rejection logged once');
is(state('one'), '1 1', 'error pages take nothing');

# the wait before a redirect is not forgotten

my $begun = now;
wait_for { now > $begun + 0.2 };
$up->release_all;
is($holder->wait->status, 200, 'holder served');
is($waiting->wait->status, 200, 'redirected request served');
is($waiting->header('X-Dsem'), 'QUEUED one', 'status is QUEUED');
cmp_ok($node->logged($waiting)->{dsem_wait_time}, '>=', 0.2,
    'wait time logged');
eventually { state('one') eq '0 0' } 'nothing left';

# same name, once, although others wait for it

for my $path ('/accel', '/try_files?hang=1', '/error_page?hang=1',
    '/intercepted?hang=1')
{
    my $before = $node->begin('/refused?hang=1');
    wait_for { $up->now == 1 };
    my $request = $node->begin($path, 'X-Nonce' => $path);
    wait_for { state('one') eq '1 1' };
    my $behind = $node->begin('/waited?hang=1');
    wait_for { state('one') eq '1 2' };
    $up->release_all;
    is($before->wait->status, 200, 'holder served');
    eventually { $up->now == 1 && ($up->order)[-1] eq $path }
        "no deadlock: $path" or die;
    eventually { state('one') eq '1 1' } 'permit acquired once';
    $up->release_all;
    is($request->wait->status, 200, 'request served');
    is($request->header('X-Dsem'), 'QUEUED one', 'status is QUEUED');
    eventually { $up->now == 1 && state('one') eq '1 0' }
        'permit released once';
    $up->release_all;
    is($behind->wait->status, 200, 'next request served');
    wait_for { state('one') eq '0 0' };
}

# another name: the first goes back before the second is waited for

my $other = $node->begin('/other?hang=1');
eventually { state('other') eq '1 0' } 'second permit acquired';
eventually { state('one') eq '0 0' } 'first permit released';
my $behind = $node->begin('/other');
eventually { state('other') eq '1 1' } 'next request queued';
eventually { state('one') eq '0 0' } 'first permit still free';
$up->release_all;
is($_->wait->status, 200, 'both requests served') for $other, $behind;
is($other->header('X-Dsem'), 'PASSED other', 'status names second semaphore');

my $none = $node->begin('/none?hang=1');
eventually { $up->now == 1 } 'unlimited target served';
eventually { state('one') eq '0 0' } 'no permit kept';
$up->release_all;
is($none->wait->status, 200, 'request served');

my $more = $node->begin('/more?hang=1');
eventually { $up->now == 1 } 'both semaphores wanted';
is(state('one') . ', ' . state('other'), '1 0, 1 0', 'both permits held');
$up->release_all;
is($more->wait->header('X-Dsem'), 'PASSED other',
    'status names last semaphore');
eventually { state('one') . state('other') eq '0 00 0' } 'nothing left';
is($up->peak, 1, 'one at a time');

done_testing();

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts($name);
}
