#!/usr/bin/perl

# Values from the body after an internal redirect: from a location that did not
# read it (try_files, an error page), and from one that did (X-Accel-Redirect).
# While the body is coming no permit of the first location is held.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
lingering_close off;
root %%DIR%%;
map $request_body $name {
    "~^name=(?<given>[a-z]+)" $given;
    default none;
}
add_header X-Dsem "$dsem_status $dsem_name" always;
log_format body '$http_x_nonce $dsem_name $request_body';
server {
    listen 127.0.0.1:%%PORT%%;
    access_log %%DIR%%/bodies.log body;
    location /try_files {
        try_files /nowhere @values;
    }
    location /named {
        dsem "first_$name" limit=1;
        try_files /nowhere @values;
    }
    location /index/ {
        dsem one limit=1 queue=10 timeout=30s;
        error_page 405 = @values;
    }
    location /accel {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_set_header X-Sem first;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
    location @values {
        dsem one limit=1 queue=10 timeout=30s;
        dsem $name limit=1 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /plain {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    dsem off;
    access_log off;
    location / {
        add_header X-Accel-Redirect @values;
        return 200;
    }
}
EOF_CONF

mkdir $node->dir . '/index';
open my $file, '>', $node->dir . '/index/file' or die "file: $!";
close $file;

# the second time the location knows

my %name;
for my $path (('/try_files', '/named', '/index/file', '/accel') x 2) {
    my $nonce = 'n' . keys %name;
    $name{$nonce} = 'name' . chr(ord('a') + keys %name);
    my $upload = $node->begin("$path?t=1", -method => 'POST',
        'X-Nonce' => $nonce, 'Content-Length' => 5 + length $name{$nonce});
    $upload->raw->send('name=');

    # a request that comes later is served by the only permit

    is $node->get('/plain?t=1')->status, 200, "$path: other request served";
    eventually { $t->state->counts('one') eq '0 0' }
        'no permit while the body comes';

    $upload->raw->send($name{$nonce});
    is $upload->wait->status, 200, 'served';
    is $upload->header('X-Dsem'), "PASSED $name{$nonce}", 'name of the body';
    wait_for { $t->state->counts('one') eq '0 0' } 15, 'its end';
}

# queued by both, in the order written

my $holder = $node->begin('/plain?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my $upload = $node->begin('/try_files?t=1', -method => 'POST',
    'X-Nonce' => 'queued', -body => 'name=queued');
wait_for { $t->state->counts('one') eq '1 1' } 15, 'queued';
$up->release_all;
is $upload->wait->header('X-Dsem'), 'QUEUED one', 'queued after its body';
$holder->wait;
is $up->peak, 1, 'one at a time';

my %seen;
wait_for {
    open my $log, '<', $node->dir . '/bodies.log';
    %seen = map { /^(n\d) \w+ name=(\w+)/ ? ($1, $2) : () } <$log>;
    keys %seen == keys %name;
} 15, 'all logged';
is_deeply \%seen, \%name, 'whole in the access log';

$t->done;
