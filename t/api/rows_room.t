#!/usr/bin/perl

# The zone that a node has by default has room for the counters of 500 names.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
$t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
dsem_reuse off;
location / {
    dsem "$arg_name" limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my $load = $t->load(urls => [ map { $node->url("/?name=t$_") } 1 .. 500 ],
    clients => 10, requests => 500);
is_deeply $load->{statuses}, { 200 => 500 }, 'each name once';

my %passed = $node->get('/dsem/metrics')->body
    =~ /^dsem_requests_total\{semaphore="([^"]+)",result="passed"\} (\d+)$/mg;
is scalar(grep { $passed{"t$_"} } 1 .. 500), 500, 'each has counters';
is $passed{'~other'} // 0, 0, 'none is counted elsewhere';

$t->done;
