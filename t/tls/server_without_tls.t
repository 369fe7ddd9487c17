#!/usr/bin/perl

# "ssl" is written, but the server has no TLS. Redis waits for the end of what
# it takes for a command; other servers reply. One line of the log names the
# cause, and requests that need no Redis are served meanwhile.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $t->redis;
my $up = $t->upstream;

sub recognised {
    my ($name, $address, $timeout, $cause) = @_;
    my $node = $t->node($name, <<'EOF_CONF', TLS => "$address ssl",
worker_processes 1;
dsem_redis %%TLS%%;
dsem_redis_connect_timeout %%TIMEOUT%%;
dsem_on_error reject;
location /capped {
    dsem api limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /free {
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
        TIMEOUT => $timeout);
    my $began = now;
    my $capped = $node->begin('/capped?t=1');
    my $free = $node->get('/free?t=1');
    is $free->status, 200, "$name: other request served";
    cmp_ok $free->took, '<', 0.5, "$name: without delay";
    is $capped->wait->status, 503, "$name: request refused";
    cmp_ok took($began), '<', 3, "$name: in time";
    wait_for { now > $began + 3 } 5, 'more attempts';
    my @lines = $node->grep_log(qr/\[(?:warn|error|alert|crit)\].*dsem: /);
    is scalar(@lines), 1, "$name: logged once" or diag join "\n", @lines;
    like "@lines", qr/unavailable \(\Q$cause\E\), requests/,
        "$name: cause named";
    return $node;
}

my $http = recognised('redis', $redis->address, '1s',
    'TLS handshake timed out (does the server use TLS?)');
recognised('http', '127.0.0.1:' . $http->port, '10s',
    'TLS handshake failed: the server does not use TLS');

$t->done;
