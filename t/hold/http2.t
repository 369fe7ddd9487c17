#!/usr/bin/perl

# HTTP/2: a hold is a stream. Its reset, or the end of the connection, is the
# end of the hold; beside it the connection serves other requests.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $node = $t->node('a', <<'EOF_CONF');
server {
    listen 127.0.0.1:%%PORT%% http2;
    location /jobs {
        dsem jobs limit=1 queue=10 timeout=60s;
        dsem_hold interval=100ms;
    }
    location /short {
        dsem short limit=1 queue=10;
        dsem_hold interval=100ms max=1s;
    }
    location /page { return 200 "page"; }
}
EOF_CONF

my $h2 = Dsem::Http2->new($node->raw);
my @streams = map { $h2->get('/jobs') } 1 .. 2;
eventually { $h2->body($streams[0]) =~ /\Agranted\n\n\n/ } 'granted, and lines';
is $h2->body($streams[1]), '', 'the other one waits';
is $h2->status($h2->get('/page')), 200, 'the connection serves others';

$h2->rst($streams[0]);
eventually { $h2->body($streams[1]) =~ /\Agranted\n/ } 'reset: the next one';

my $other = Dsem::Http2->new($node->raw);
my $next = $other->get('/jobs');
eventually { $t->state->waiting('jobs') == 1 } 'another connection waits';
$h2->close;
eventually { $other->body($next) =~ /\Agranted\n/ } 'closed: the next one';

my $short = $other->get('/short');
eventually { $other->ended($short) } 'a longest time';
like $other->body($short), qr/\Agranted\n\n+expired\n\z/, 'told that it is over';
is $other->status($short), 200, 'status';
is $other->ended($short), 'whole', 'and ended as a stream is';
$other->close;

$t->done;
