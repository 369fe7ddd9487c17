#!/usr/bin/perl

# Redis with a certificate that does not fit: no command is sent, requests are refused at once, and one line of the log names the cause.
# With the right certificate Redis is available again.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%TLS%%;
dsem_redis_connect_timeout 10s;
dsem_redis_timeout 10s;
dsem_lease 20s;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub refused {
    my ($name, $redis, $to, $cause) = @_;
    my $node = $t->node($name =~ s/\W/_/gr, $conf, TLS => $to);
    my $began = now;
    # the timeouts are longer: the cause opens the breaker
    is $node->get('/?t=1')->status, 503, "$name: request refused";
    cmp_ok took($began), '<', 5, "$name: at once";
    wait_for { now > $began + 1 } 5, 'more attempts';
    is $node->get('/?t=1')->status, 503, "$name: still refused";
    my @lines = $node->grep_log(qr/\[(?:warn|error|alert|crit|emerg)\]/);
    # and one for each of the two requests
    is scalar(@lines), 3, "$name: logged once" or diag join "\n", @lines;
    like "@lines", qr/unavailable \(\Q$cause\E\), requests/,
        "$name: cause named";
    is $redis->calls->{evalsha} // 0, 0, "$name: no call";
    return $node;
}

my $good = $tls->redis;
refused('other authority', $good, $tls->to($good, ca => $tls->ca('stranger')),
    'TLS handshake failed: self-signed certificate in certificate chain')->quit;
refused('other name', $good, $tls->to($good) . ' ssl_name=other.test',
    'TLS handshake failed: hostname mismatch: "other.test"')->quit;
refused('other address', $good, $tls->to($good) . ' ssl_name=127.0.0.2',
    'TLS handshake failed: IP address mismatch: "127.0.0.2"')->quit;

my $name_only = $tls->redis(san => 'DNS:redis.test');
refused('address not certified', $name_only, $tls->to($name_only),
    'TLS handshake failed: IP address mismatch: "127.0.0.1"')->quit;

# a certificate that is renewed in time is not noticed

my $redis = $tls->redis(expired => 1);
my $node = refused('expired', $redis, $tls->to($redis),
    'TLS handshake failed: certificate has expired');
my $renewed = $tls->issue('renewed');
$redis->cmd(qw(CONFIG SET), 'tls-cert-file' => $renewed->{cert},
    'tls-key-file' => $renewed->{key});
eventually { $node->grep_log(qr/\[notice\].*available again/) == 1 }
    'renewed: available again';
is $node->get('/?t=1')->status, 200, 'renewed: request served';

$t->done;
