#!/usr/bin/perl

# A location without a content handler does not wait for a body. When its
# request is redirected to one that does, the permits acquired before are not
# held while the body is coming, and acquired again after it; a body that has
# come already costs no second wait.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem one limit=1 queue=10 timeout=30s;
lingering_close off;
root %%DIR%%;
server {
    listen 127.0.0.1:%%PORT%%;
    location /plain {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location /try_files {
        try_files /nowhere @backend;
    }
    location /index/ {
        error_page 405 = @backend;
    }
    location @backend {
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
# shows what the upstream gets
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    access_log off;
    location / {
        add_header X-Body $request_body;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

mkdir $node->dir . '/index';
open my $file, '>', $node->dir . '/index/file' or die "file: $!";
close $file;

sub upload {
    my ($path) = @_;
    my $upload = $node->begin($path, -method => 'POST',
        'Content-Length' => 10);
    $upload->raw->send('01234');
    return $upload;
}

for my $path ('/try_files', '/index/file') {
    my $upload = upload("$path?t=1");
    my $begun = now;
    wait_for { now > $begun + 0.1 };
    eventually { state() eq '0 0' } "$path: no permit while the body comes";
    is($node->get('/plain?t=1')->status, 200, 'other request served');

    my $holder = $node->begin('/plain?hang=1');
    wait_for { $up->now == 1 };
    $upload->raw->send('56789');
    eventually { state() eq '1 1' } 'queued after its body';
    $up->release_all;
    is($_->wait->status, 200, 'request served') for $holder, $upload;
    is($upload->header('X-Body'), '0123456789', 'body complete');
    is($node->logged($upload)->{dsem_status}, 'QUEUED', 'status is QUEUED');
    eventually { state() eq '0 0' } 'no permit held';

    # the body comes while it is queued: its turn is not lost

    $up->reset;
    $holder = $node->begin('/plain?hang=1');
    wait_for { $up->now == 1 };
    $upload = upload("$path?t=1");
    wait_for { state() eq '1 1' };
    $upload->raw->send('56789');
    my $next = $node->begin('/plain?t=1');
    wait_for { state() eq '1 2' };
    $up->release_all;
    is($_->wait->status, 200, 'request served') for $holder, $upload, $next;
    is_deeply([$up->order], [map { $_->nonce } $holder, $upload, $next],
        'in order');
    is($upload->header('X-Body'), '0123456789', 'body complete');
    is($up->peak, 1, 'one at a time');
    eventually { state() eq '0 0' } 'no permit held';
}

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
