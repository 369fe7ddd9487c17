#!/usr/bin/perl

# Redis with TLS: the certificate is for the name in ssl_name, or for the
# address as written. The authority is in ssl_ca, or is one that the system
# trusts. ssl_verify=off accepts every certificate.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $up = $t->upstream;
my $both = $tls->redis;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%TLS%%;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub accepted {
    my ($name, $redis, $to, $address) = @_;
    my $node = $t->node($name =~ s/\W/_/gr, $conf, TLS => $to);
    is $node->get('/?t=1')->status, 200, "$name: request served";
    my ($line) = $node->grep_log(qr/connected to redis/);
    $address //= $redis->tls_address;
    like $line, qr/connected to redis \Q$address\E/, "$name: by TLS";
    $node->quit;
    is scalar($node->grep_log(qr/\[(?:warn|error|alert|crit|emerg)\]/)), 0,
        "$name: no warning";
}

accepted('address', $both, $tls->to($both));
accepted('name', $both, $tls->to($both) . ' ssl_name=redis.test');

my $wildcard = $tls->redis(san => 'DNS:*.redis.test');
accepted('wildcard', $wildcard,
    $tls->to($wildcard) . ' ssl_name=a.redis.test');

my $localhost = $tls->redis(san => 'DNS:localhost');
my $port = $localhost->tls_address =~ s/.*://r;
accepted('name as written', $localhost,
    $tls->to($localhost, address => "localhost:$port"));

my $six = $tls->redis(san => 'IP:::1', args => [qw(--bind 127.0.0.1 ::1)]);
my $at = $six->tls_address =~ s/.*:/[::1]:/r;
accepted('IPv6 address', $six, $tls->to($six, address => $at), $at);

# any certificate

my $other = $tls->redis(san => 'DNS:elsewhere.test', ca => 'stranger',
    expired => 1);
accepted('not verified', $other, $other->tls_address . ' ssl ssl_verify=off');

# OpenSSL reads this variable where the default store is used

$ENV{SSL_CERT_FILE} = $tls->ca;
accepted('authority of the system', $both, $both->tls_address . ' ssl');
$ENV{SSL_CERT_FILE} = $tls->ca('stranger');
accepted('ssl_ca in place of it', $both, $tls->to($both));

$t->done;
