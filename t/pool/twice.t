#!/usr/bin/perl

# An upstream has an address twice: it is one server, and out of service like any
# other when it has failed as often as each of the two lines allows.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my ($bad, $good) = map { $t->upstream } 1, 2;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream servers {
    server ${\ $bad->address} fail_timeout=1h;
    server ${\ $bad->address} fail_timeout=1h;
    server ${\ $good->address} fail_timeout=1h;
    dsem servers limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_set_header X-Node %%NODE%%;
        proxy_pass http://servers;
    }
}
EOF_CONF

$bad->refuse('a');
my %seen;
$seen{ $node->get('/')->status }++ for 1 .. 20;
is $seen{502}, 2, 'two requests fail';
is $seen{200}, 18, 'all others are for the other server';

$t->done;
