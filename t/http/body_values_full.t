#!/usr/bin/perl

# A flood of large bodies at a full queue: a location whose values do not need
# the body refuses it unread, also where the access log has $request_body and
# the values are variables. One whose values need it reads it.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $SIZE = 3_000_000;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
client_max_body_size 10m;
client_body_buffer_size 4m;
lingering_close off;
log_format body '$http_x_nonce $request_length $request_body';
map $http_x_weight $weight { default $http_x_weight; }
map $request_body $tokens { default 1; }
server {
    listen 127.0.0.1:%%PORT%%;
    access_log %%DIR%%/bodies.log body;
    location / {
        # asks for the body before it is read, but is no value of "dsem"
        if ($request_body) {
            return 204;
        }
        dsem one limit=1 weight=$weight queue=$arg_q timeout=1m;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /values {
        dsem one limit=1 weight=$tokens queue=1 timeout=1m;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my @served = map {
    my $request = $node->begin('/?hang=1&q=1');
    wait_for { $t->state->counts('one') eq $_ } 15, 'a full queue';
    $request;
} '1 0', '1 1';

# what the worker knows of a full semaphore is forgotten after 100 ms
$clock->stop;
is $node->get('/?q=1')->status, 503, 'all is full';
my @flood = map {
    my $upload = $node->begin('/?q=1', -method => 'POST',
        'Content-Length' => $SIZE, 'X-Nonce' => "n$_");
    $upload->raw->send('x' x 1000);
    $upload;
} 1 .. 5;
is $_->wait->status, 503, 'refused' for @flood;
$_->close for @flood;
my %bytes;
wait_for { %bytes = logged(); 5 == grep { $bytes{"n$_"} } 1 .. 5 } 15, 'logged';
cmp_ok $bytes{"n$_"}, '<', 5000, 'no body read' for 1 .. 5;
$clock->go;

# needed

my $upload = $node->begin('/values', -method => 'POST', 'X-Nonce' => 'values',
    -body => 'x' x $SIZE);
is $upload->wait->status, 503, 'refused with values from the body';
my $read = wait_for { +{ logged() }->{values} } 15, 'logged';
cmp_ok $read, '>', $SIZE, 'body read';

$up->release_all;
wait_for { $up->release_all; !grep { !$_->done } @served } 15, 'the end';
is $_->status, 200, 'served' for @served;

$t->done;

# bytes of each request
sub logged {
    open my $log, '<', $node->dir . '/bodies.log' or return;
    return map { /^(\S+) (\d+)/ } <$log>;
}
