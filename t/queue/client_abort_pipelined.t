#!/usr/bin/perl

# A client sends more than its request and closes while the request waits.
# epoll reports the close behind unread bytes: the ticket is cancelled at once,
# and the bytes are never read. For the other event methods see
# http/event_methods.t.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
events { use epoll; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /waits {
            dsem api limit=1 queue=10 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $MORE = "GET /pipelined HTTP/1.1\r\nHost: localhost\r\n\r\n";

sub waiting { $t->state->waiting('api') }

my $holder = $node->begin('/waits?hang=1');
eventually { $up->now == 1 } 'permit out';

for my $way (qw(close abort)) {
    for my $more ($MORE, $MORE x 100, 'GET ') {
        my $leaver = $node->begin('/waits', Connection => 'keep-alive');
        wait_for { waiting() == 1 } 15, 'the ticket';
        $leaver->raw->send($more);
        $leaver->$way;
        eventually { waiting() == 0 }
            "$way, " . length($more) . ' bytes more: ticket removed';
        is $node->logged($leaver)->{status}, 499, 'logged as 499';
    }
}

# a client that has left before its request is read

$node->freeze;
$node->raw->send("GET /waits?left HTTP/1.1\r\nHost: localhost\r\n\r\n")
    ->close;
$node->thaw;
eventually { grep { $_->{request_uri} eq '/waits?left' && $_->{status} == 499 }
    $node->access_log } 'left before: logged as 499';
eventually { waiting() == 0 } 'left before: no ticket';

# a client that stays is served, and then its pipelined request

my $stays = $node->raw->send($MORE =~ s/pipelined/waits/r . $MORE);
eventually { waiting() == 1 } 'staying client queued';
$up->release_all;
is $holder->wait->status, 200, 'holder served';
like $stays->read_until(qr/ 404 /), qr/^HTTP\S+ 200 .* 404 /s,
    'both pipelined requests served';
$stays->close;
is $up->started, 2, 'no aborted request at backend';
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
