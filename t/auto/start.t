#!/usr/bin/perl

# The limit begins at 10, or at the bound that is nearest, for the first
# requests already.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
proxy_set_header X-Sem $dsem_name;
location /both {
    dsem both limit=auto queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /low {
    dsem low limit=auto max=5 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /high {
    dsem high limit=auto min=20 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %start = (both => 10, low => 5, high => 20);
my @requests = map { my $name = $_; map { $node->begin("/$name?hang=1&n=$_") }
    1 .. 25 } sort keys %start;
for my $name (sort keys %start) {
    eventually { $t->state->waiting($name) == 25 - $start{$name} }
        "$name: the others wait";
    eventually { $up->now($name) == $start{$name} }
        "$name: requests at the backend";
}
is $up->now, 35, 'no more at the backend';
$_->abort for @requests;
eventually { $up->now == 0 } 'all have left';

$t->done;
