#!/usr/bin/perl

# A worker that was told just now that neither a permit nor a place is left
# refuses an upload before it reads it; one that has not heard for a while
# reads first and asks then.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_reuse off;
dsem_log_level info;
dsem one limit=1 queue=1 timeout=30s;
lingering_close off;
add_header X-Dsem $dsem_status always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /full {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /full/longer_queue {
        dsem one limit=1 queue=2 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /full/dry_run {
        dsem_dry_run on;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /full/off {
        dsem_wait_body off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /free {
        dsem two limit=1 queue=1 timeout=30s;
        dsem one limit=1 queue=1 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /other {
        dsem other limit=1 queue=1 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /replies {
        dsem replies limit=10;
        empty_gif;
    }
}
EOF_CONF

# the head of an upload, with nothing behind it yet
sub upload {
    my ($path) = @_;
    return $node->begin($path, -method => 'POST', 'Content-Length' => 10);
}

# whether it is answered without its body; the rest of it is nginx's affair
sub answered {
    my ($upload) = @_;
    # by its worker, and behind the reply to a request for a permit
    $node->get('/replies');
    return $upload->done;
}

sub refuse { is($node->get('/full')->status, 503, 'a GET is refused') }

my @served = map {
    my $request = $node->begin('/full?hang=1');
    wait_for { state() eq $_ };
    $request;
} '1 0', '1 1';

# at first nobody knows

my $upload = upload('/full');
ok(!answered($upload), 'no hint: body read');
$upload->raw->send('x' x 10);
is($upload->wait->header('X-Dsem'), 'REJECTED', 'permit requested after body');

# told just now; but a busy machine may take longer for that

for my $path ('/full', '/free') {
    my $refused = wait_for {
        $node->get('/full');
        my $upload = upload("$path?refused");
        answered($upload) && $upload;
    };
    is($refused->status, 503, "$path: refused before the body");
    is($refused->header('X-Dsem'), 'REJECTED', 'status is REJECTED');
    $refused->close;
    is($node->logged($refused)->{dsem_in_use}, 1, 'last count reported');
}
my $log = qr/dsem rejected: semaphore "one" has 1 of 1 permits in use and its/;
cmp_ok(scalar $node->grep_log($log), '>', 3, 'rejections logged');

# no longer a while after it

refuse();
my $told = now;
wait_for { now > $told + 0.2 };
$upload = upload('/full');
ok(!answered($upload), 'hint expired: body read');
is(state(), '1 1', 'no permit requested');
$upload->close;

# others have room

for my $path ('/other', '/full/longer_queue', '/full/dry_run') {
    refuse();
    $upload = upload($path);
    ok(!answered($upload), "$path: reads the body");
    $upload->close;
}

# with "off" it always asks first

wait_for { now > $told + 0.5 };
$upload = upload('/full/off');
is($upload->wait->header('X-Dsem'), 'REJECTED', 'off: body not read');

# as soon as the worker knows better

refuse();
$up->release_all;
is($served[0]->wait->status, 200, 'permit released');
# the next one has it: its worker knows
wait_for { $up->now == 1 && state() eq '1 0' };
$upload = upload('/full?t=1');
ok(!answered($upload), 'body read');
$upload->raw->send('x' x 10);
wait_for { state() eq '1 1' };
# its reply comes behind the one by which the upload waits
is($node->get('/replies')->status, 200, 'the worker knows');
$up->release_all;
is($upload->wait->header('X-Dsem'), 'QUEUED', 'upload queued');
is($served[1]->wait->status, 200, 'holder served');
is($up->peak, 1, 'one at a time');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
