#!/usr/bin/perl

# A worker that is told to exit while an upload comes in reads it to its end,
# asks for its permit then and serves it.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_on_error reject;
    dsem one limit=1 queue=10 timeout=30s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub upload {
    my ($path) = @_;
    my $upload = $node->begin($path, -method => 'POST',
        'Content-Length' => 10);
    $upload->raw->send('x' x 5);
    return $upload;
}

# others have a permit, or nobody has

for my $held (0, 1) {
    is($node->get('/?t=1')->status, 200, 'session open');
    my @uploads = map { upload("/?t=1&upload$_") } 1, 2;
    my $expects = $node->begin('/', -method => 'POST', 'Content-Length' => 1,
        Expect => '100-continue');
    $expects->raw->read_until(qr/100 Continue\r\n\r\n/);
    my $holder;
    $holder = $node->begin('/?hang=1') if $held;
    wait_for { $up->now == $held };
    $node->reload;
    my $begun = now;
    wait_for { now > $begun + 2.5 };
    is(scalar($node->draining), 1, 'old worker stays for the uploads');
    $uploads[0]->raw->send('x' x 5);
    $expects->raw->send('x');
    my $next = $node->begin('/?t=1');
    if ($held) {
        eventually { waiting() == 3 } 'all uploads queued';
        $up->release_all;
        is($holder->wait->status, 200, 'holder served');
    }
    is($_->wait->status, 200, 'upload served') for $uploads[0], $expects, $next;
    $uploads[1]->raw->send('x' x 5);
    is($uploads[1]->wait->status, 200, 'last upload served');
    $_->close for @uploads, $expects;
    eventually { !$node->draining } 'old worker gone';
}
is($up->peak, 1, 'one at a time');

done_testing();

sub waiting { $t->state->waiting('one') }
