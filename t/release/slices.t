#!/usr/bin/perl

# A response fetched in slices is one request to the client and many successive
# requests to the upstream. All of them use one permit, and no other request
# acquires it in between.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%%;
    location /sliced {
        dsem one limit=1 queue=10 timeout=30s;
        slice 100k;
        proxy_set_header Range $slice_range;
        proxy_set_header X-Nonce $http_x_nonce;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /whole {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
# serves ranges of the upstream response
server {
    listen 127.0.0.1:%%PORT2%%;
    location / {
        proxy_force_ranges on;
        proxy_set_header Range "";
        proxy_set_header X-Nonce $http_x_nonce;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $path = '/sliced?size=409600&hang=1';
my $first = $node->begin($path, 'X-Nonce' => 'first');
wait_for { $up->now == 1 };
my @next = map { $node->begin($_, 'X-Nonce' => 'next') } '/whole', $path;
eventually { state() eq '1 2' } 'two requests queued';

wait_for { $up->release_all; !grep { !$_->done } $first, @next };
is($_->status, 200, 'request served') for $first, @next;
is(length $first->body, 409_600, 'first response complete');
is(length $next[1]->body, 409_600, 'second response complete');
is(join(' ', $up->order), join(' ', ('first') x 4, 'next', ('next') x 4),
    'no other request between');
is($up->peak, 1, 'one at a time');
eventually { state() eq '0 0' } 'no permit held';

# a client abort in the middle

$up->reset;
$first = $node->begin('/sliced?size=409600&hang=1', 'X-Nonce' => 'first');
wait_for { $up->now == 1 };
my $next = $node->begin('/whole', 'X-Nonce' => 'next');
wait_for { state() eq '1 1' };
$up->release(1);
eventually { $up->started == 2 && $up->now == 1 } 'second slice running';
is(($up->order)[-1], 'first', 'same request');
$first->abort;
is($next->wait->status, 200, 'next served after abort');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
