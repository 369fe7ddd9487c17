#!/usr/bin/perl

# A redirected request that is suspended on the way to its new location, with
# nothing at the upstream, releases the permits that it brought along, whether
# the new location wants them or not, and acquires again when it arrives: other
# requests are served meanwhile.  A request that gets there at once keeps them.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_reuse off;
dsem one limit=1 queue=10 timeout=30s;
lingering_close off;
proxy_set_header X-Sem main;
limit_req_zone $uri zone=slow:1m rate=1r/m;
server {
    listen 127.0.0.1:%%PORT%%;
    location /plain {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /accel {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /try_files {
        try_files /nowhere @checked;
    }
    location /checked {
        auth_request /auth;
        proxy_pass http://%%UPSTREAM%%;
    }
    location @checked {
        auth_request /auth;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /other {
        dsem other limit=1;
        auth_request /auth;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /not_limited {
        dsem off;
        auth_request /auth;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /at_once {
        auth_request /allowed;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /delayed {
        limit_req zone=slow burst=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /auth {
        proxy_set_header X-Sem auth;
        proxy_pass http://%%UPSTREAM%%/?hang=1;
    }
    location = /allowed {
        return 204;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    access_log off;
    location / {
        add_header X-Accel-Redirect $arg_to;
        return 200;
    }
}
EOF_CONF

for my $path ('/accel?to=/checked', '/accel?to=/other',
    '/accel?to=/not_limited', '/try_files')
{
    $up->reset;
    my $redirected = $node->begin($path, 'X-Nonce' => 'redirected');
    eventually { $up->now('auth') == 1 } "$path: suspended";
    eventually { held() == 0 } 'permit released';
    my $other = $node->begin('/plain?t=1', 'X-Nonce' => 'other');
    is($other->wait->status, 200, 'other request served meanwhile');
    ok(!$redirected->done, 'redirected request suspended');
    $up->release_all;
    is($redirected->wait->status, 200, 'redirected request served');
    is_deeply([order()], ['other', 'redirected'], 'in order');
    eventually { held() == 0 } 'no permit held';
}

# a queue in between

$up->reset;
my $redirected = $node->begin('/try_files', 'X-Nonce' => 'redirected');
wait_for { $up->now('auth') == 1 };
my $holder = $node->begin('/plain?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now('main') == 1 };
$up->release_nonce('redirected');
eventually { waiting() == 1 } 'queued after auth_request';
$up->release_all;
is($_->wait->status, 200, 'request served') for $holder, $redirected;
is($up->peak('main'), 1, 'one at a time');

# limit_req delays the second one

is($node->get('/accel?to=/delayed&t=1')->status, 200, 'first request served');
my $delayed = $node->begin('/accel?to=/delayed');
is($node->get('/plain?t=1')->status, 200, 'other request served');
ok(!$delayed->done, 'limit_req: second request delayed');
eventually { held() == 0 } 'permit released';
$delayed->close;
is($node->logged($delayed)->{status}, 499, 'client abort logged');

# at once: the permit stays, before others that wait

$up->reset;
$holder = $node->begin('/plain?hang=1');
wait_for { $up->now == 1 };
$redirected = $node->begin('/accel?to=/at_once', 'X-Nonce' => 'redirected');
wait_for { waiting() == 1 };
my $last = $node->begin('/plain', 'X-Nonce' => 'last');
wait_for { waiting() == 2 };
$up->release_all;
is($_->wait->status, 200, 'request served') for $holder, $redirected, $last;
is_deeply([(order())[1, 2]], ['redirected', 'last'], 'permit kept');

eventually { held() == 0 } 'no permit held';

done_testing();

# nonces of the limited requests
sub order {
    return map { $_->{nonce} }
        sort { $a->{start} <=> $b->{start} }
        grep { $_->{sem} eq 'main' } $up->log;
}

sub held { $t->state->held('one') }
sub waiting { $t->state->waiting('one') }
