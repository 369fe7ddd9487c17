#!/usr/bin/perl

# A request that "dsem_on_error local" has admitted is DEGRADED in the location
# that it is redirected to as well, where it keeps its permit.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_redis 127.0.0.1:1;
dsem_redis_connect_timeout 300ms;
location /kept {
    dsem one limit=1;
    try_files /nowhere @one;
}
location @one {
    dsem one limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /unlimited {
    dsem one limit=1;
    try_files /nowhere @none;
}
location @none {
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

for my $path (qw(/kept /unlimited)) {
    my $request = $node->get($path);
    is $request->status, 200, "$path: request served";
    is $node->logged($request)->{dsem_status}, 'DEGRADED', "$path: degraded";
}

$t->done;
