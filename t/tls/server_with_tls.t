#!/usr/bin/perl

# "dsem_redis" leads to a port with TLS, but "ssl" is not written: the log says
# so, once.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->certificates($t);
my $redis = $tls->redis;
my $up = $t->upstream;

my $way = $t->proxy($redis->tls_address);

for my $password ('', ' password=word') {
    my $name = $password ? 'password' : 'plain';
    my $node = $t->node($name, <<'EOF_CONF', TLS => $way->address . $password);
worker_processes 1;
dsem_redis %%TLS%%;
dsem_redis_connect_timeout 1s;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
    is $node->get('/?t=1')->status, 503, "$name: request refused";
    my $seen = $way->accepted;
    wait_for { $way->accepted >= $seen + 4 } 15, 'more attempts';
    my @lines = $tls->unavailable($node);
    is scalar(@lines), 1, "$name: logged once" or diag join "\n", @lines;
    like "@lines", qr/unavailable \(.* \(does the server use TLS\?\)\), /,
        "$name: cause named";
    $node->quit;
}

$t->done;
