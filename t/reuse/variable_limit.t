#!/usr/bin/perl

# A limit from a variable: a request whose limit differs from the limit in
# Redis is not served by an idle permit.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse 60s;
location / {
    dsem api limit=$arg_limit queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem_reuse off;
    dsem other limit=10;
    empty_gif;
}
EOF_CONF

sub held { return $t->state->held('api') }

sub two_idle {
    my @two = map { $node->begin('/?limit=4&hang=1') } 1, 2;
    wait_for { $up->now == 2 } 15, 'two at the backend';
    $up->release_all;
    $_->wait for @two;
    return held() == 2;
}

eventually { two_idle() } 'two idle permits', 15;

# idle permits serve any request while a reply is late: none ever is
$clock->stop;
is $node->get('/other')->status, 200, 'no reply awaited';
is $node->get('/?limit=0')->status, 503, 'limit=0: request rejected';
eventually { held() == 0 } 'no idle permit left';

$clock->go;
eventually { two_idle() } 'old limit: permits idle again', 15;

$clock->stop;
is $node->get('/other')->status, 200, 'no reply awaited';
my $one = $node->begin('/?limit=4&hang=1');
eventually { $up->now == 1 } 'one request served';
my $two = $node->begin('/?limit=1&hang=1');
eventually { $t->state->waiting('api') == 1 } 'limit 1: next request queued';
is $t->state->limit('api'), 1, 'new limit in redis';
is $up->now, 1, 'one request at upstream';
$clock->go;

$up->release_all;
is $one->wait->status, 200, 'request served';
eventually { $up->now == 1 } 'next request served';
$up->release_all;
is $two->wait->status, 200, 'last request served';

$t->done;
