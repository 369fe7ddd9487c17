#!/usr/bin/perl

# Two requests come in one turn of the event loop, and then a permit comes free:
# the one of the better class gets it, though it came later.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse 60s;
location / {
    dsem api limit=1 queue=10 timeout=60s priority=$arg_class;
    proxy_pass http://%%UPSTREAM%%;
}
location /free {
    return 204;
}
EOF_CONF

sub send_request {
    my ($raw, $path) = @_;
    $raw->send("GET $path HTTP/1.1\r\nHost: a\r\nX-Nonce: $path\r\n\r\n");
}

my ($first, @later) = map { $node->raw } 1 .. 3;
for (@later) {
    send_request($_, '/free');
    $_->read_until(qr/204/);
}
is $node->get('/')->status, 200, 'a permit stays';
wait_for { $t->state->figure('api', 'active') } 15, 'an idle permit';
send_request($first, '/?hang=1');
wait_for { $up->now == 1 } 15, 'it serves the next request';

$node->freeze;
send_request($later[0], '/?hang=1&class=5');
send_request($later[1], '/?hang=1&class=-5');
$up->release(1);
$node->thaw;
eventually { $up->started == 3 } 'the next one';
is +($up->order)[-1], '/?hang=1&class=-5', 'of the better class';
$up->release(1);
eventually { $up->started == 4 } 'then the other';
$up->release_all;
is $up->peak, 1, 'one at a time';
$_->read_until(qr/200/) for $first, @later;

$t->done;
