#!/usr/bin/perl

# A worker that is told to exit while an upload comes in reads it to its end,
# asks for its permit then and serves it.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
dsem_on_error reject;
dsem %%NODE%% limit=1 queue=10 timeout=30s;
proxy_set_header X-Sem %%NODE%%;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub upload {
    my ($node, $path) = @_;
    my $upload = $node->begin($path, -method => 'POST',
        'Content-Length' => 10);
    $upload->raw->send('x' x 5);
    return $upload;
}

# others have a permit, or nobody has

my @old = map { uploading($t->node($_, $conf)) } qw(held free);
# a worker that has nothing to do but to release permits exits after 2 s
my $begun = now;
wait_for { now > $begun + 2.5 };
served(@$_) for @old;

done_testing();

# Uploads that are half there when their worker is told to exit.
sub uploading {
    my ($node) = @_;
    is($node->get('/?t=1')->status, 200, 'session open');
    my @uploads = map { upload($node, "/?t=1&upload$_") } 1, 2;
    my $expects = $node->begin('/', -method => 'POST', 'Content-Length' => 1,
        Expect => '100-continue');
    $expects->raw->read_until(qr/100 Continue\r\n\r\n/);
    my $holder = $node->name eq 'held' && $node->begin('/?hang=1');
    wait_for { !$holder || $up->now('held') == 1 };
    $node->reload;
    return [$node, $expects, $holder, @uploads];
}

sub served {
    my ($node, $expects, $holder, @uploads) = @_;
    is(scalar($node->draining), 1, 'old worker stays for the uploads');
    $uploads[0]->raw->send('x' x 5);
    $expects->raw->send('x');
    my $next = $node->begin('/?t=1');
    if ($holder) {
        eventually { $t->state->waiting('held') == 3 } 'all uploads queued';
        $up->release_all;
        is($holder->wait->status, 200, 'holder served');
    }
    is($_->wait->status, 200, 'upload served') for $uploads[0], $expects, $next;
    $uploads[1]->raw->send('x' x 5);
    is($uploads[1]->wait->status, 200, 'last upload served');
    $_->close for @uploads, $expects;
    eventually { !$node->draining } 'old worker gone';
    is($up->peak($node->name), 1, 'one at a time');
}
