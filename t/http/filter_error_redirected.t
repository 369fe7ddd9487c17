#!/usr/bin/perl

# A header filter that fails (If-Match, 412) while error_page leads into a
# limited location: nginx cannot wait there, so the request is decided at once,
# by an idle permit or by dsem_on_error. The connection is not closed without a
# response.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
add_header X-Dsem $dsem_status always;
dsem_reuse off;
root %%DIR%%;
location /page {
    error_page 412 = /rejects;
}
location /page_passes {
    error_page 412 = /passes;
}
location /page_kept {
    error_page 412 = /kept;
}
location /rejects {
    dsem one limit=1 queue=10 timeout=5s;
    try_files /page =404;
}
location /passes {
    dsem one limit=1 queue=10 timeout=5s;
    dsem_on_error pass;
    try_files /page =404;
}
location /kept {
    dsem kept limit=4 queue=10 timeout=5s;
    dsem_reuse 30s;
    try_files /page =404;
}
EOF_CONF

for my $name (qw(page page_passes page_kept)) {
    open my $file, '>', $node->dir . "/$name" or die "$name: $!";
    print $file "a page\n";
    close $file;
}

my @if_match = ('If-Match' => '"b"');

for (1 .. 3) {
    my $answer = $node->get('/page', @if_match);
    is $answer->status, 503, 'rejected with a response';
    is $answer->header('X-Dsem'), 'ERROR', 'status is ERROR';
}

my $answer = $node->get('/page_passes', @if_match);
is $answer->status, 412, 'passed by dsem_on_error';
is $answer->header('X-Dsem'), 'DEGRADED', 'status is DEGRADED';

# a permit that is idle in the worker needs no reply
is $node->get('/kept')->status, 200, 'permit fetched';
$answer = $node->get('/page_kept', @if_match);
is $answer->status, 412, 'served by an idle permit';
is $answer->header('X-Dsem'), 'PASSED', 'status is PASSED';

# the idle permit goes with its worker
$node->reload;
eventually { state('one') eq '0 0' && state('kept') eq '0 0' }
    'no permit held';

$t->done;

# permits held and tickets waiting
sub state { return $t->state->counts($_[0]) }
