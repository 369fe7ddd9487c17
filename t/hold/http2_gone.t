#!/usr/bin/perl

# HTTP/2: a client that is gone without a word is noticed within "send_timeout"
# of the server, as nginx uses it for a connection. That of the location of a
# hold is not that of the other streams.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('a', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%% http2;
    send_timeout 60s;
    location /jobs {
        dsem jobs limit=1;
        dsem_hold interval=500ms;
        send_timeout 1s;
    }
    location /page { return 200 "page"; }
}
server {
    listen 127.0.0.1:%%PORT2%% http2;
    send_timeout 3s;
    location /short {
        dsem short limit=1;
        dsem_hold interval=500ms;
        send_timeout 60s;
    }
}
EOF_CONF

my ($h2, $gone) = map { Dsem::Http2->new($node->raw($_)) } 1, 2;
my $hold = $h2->get('/jobs');
my $short = $gone->get('/short');
eventually { $h2->body($hold) =~ /\Agranted\n/ } 'granted';
eventually { $gone->body($short) =~ /\Agranted\n/ } 'also the other one';

$_->raw->pull for $h2, $gone;
eventually { $t->state->held('short') == 0 } '"send_timeout" of the server';
is $t->state->held('jobs'), 1, 'not that of the location';
$h2->raw->plug;
is eval { $h2->status($h2->get('/page')) }, 200, 'the connection is there';
$_->close for $h2, $gone;

$t->done;
