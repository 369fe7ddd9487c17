#!/usr/bin/perl

# A request with a condition: a change is refused before Redis is asked, as
# there is nothing to compare with, and an answer that is read is not replaced.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('n1', <<'EOF_CONF');
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

wait_for { $node->get('/dsem/health')->status == 200 } 15, 'connected';

for my $condition ([ 'If-Match', '"a"' ], [ 'If-None-Match', '*' ],
    [ 'If-Unmodified-Since', 'Thu, 01 Jan 1970 00:00:00 GMT' ])
{
    my $patch = $node->get('/dsem/semaphores/a', -method => 'PATCH',
        -body => '{"limit":1}', 'Content-Type' => 'application/json',
        @$condition);
    is $patch->status, 412, "$condition->[0]: change refused";
    like $patch->body, qr/^\{"error":"a change cannot have a condition/,
        "$condition->[0]: reason as JSON";
    is $t->state->shard('order:a'), undef, "$condition->[0]: no order";
    is $node->get('/dsem/sessions/n1:0:0123456789abcdef',
        -method => 'DELETE', @$condition)->status, 412,
        "$condition->[0]: session not removed";
    is $node->get('/dsem/semaphores', @$condition)->status, 200,
        "$condition->[0]: figures read";
}

$t->done;
