#!/usr/bin/perl

# A limit that is a variable: the one of the last request is in force. An
# upload with a higher limit than that of a request that was rejected just now
# is not rejected unread: it asks, and passes.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_reuse off;
lingering_close off;
add_header X-Dsem "$dsem_status $dsem_limit" always;
location / {
    dsem one limit=$arg_limit;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holder = $node->begin('/?limit=1&hang=1');
wait_for { $up->now == 1 } 15, 'limit reached';

# on a busy machine the worker may have forgotten: then once more

my $higher;
wait_for {
    $node->get('/?limit=1');
    $higher = $node->begin('/?limit=2&hang=1', 'X-Nonce' => 'higher',
        -method => 'POST', -body => 'x');
    wait_for { $higher->done || $up->now == 2 };
    $higher->done || unread() || again();
};
is($up->now, 2, 'an upload with a higher limit passes');
$up->release_all;
is($holder->wait->status, 200, 'first request served');
is($higher->wait->header('X-Dsem'), 'PASSED 2', 'limit of the upload');

done_testing();

# whether the worker still rejects uploads with the limit that is reached
sub unread {
    my $upload = $node->begin('/?limit=1', -method => 'POST',
        'Content-Length' => 10);
    my $end = now + 0.05;
    wait_for { $upload->done || now > $end };
    my $done = $upload->done;
    $upload->close;
    return $done;
}

sub again {
    $up->release_nonce('higher');
    $higher->wait;
    return 0;
}
