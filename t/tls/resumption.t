#!/usr/bin/perl

# A reconnect resumes the session of TLS: Redis does not send its certificate
# again, which is made large here. Another certificate ends that.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

# a certificate of some 12,000 bytes
my $SAN = join ',', 'IP:127.0.0.1',
    map { sprintf 'DNS:%s%03d.redis.test', 'x' x 40, $_ } 1 .. 200;
my $LARGE = 10_000;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis(san => $SAN);
my $up = $t->upstream;
my $proxy = $t->proxy($redis->tls_address);

my $node = $t->node('a', <<'EOF_CONF',
worker_processes 1;
dsem_redis %%TLS%%;
location / {
    dsem api limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
    TLS => $tls->to($redis, address => $proxy->address));

sub subscribed {
    return $redis->cmd(qw(CLIENT LIST TYPE pubsub)) =~ /id=(\d+)/ ? $1 : 0;
}

# bytes of Redis until both connections are used
sub reconnected {
    my ($name) = @_;
    my ($before, $id) = ($proxy->bytes->{s2c}, subscribed());
    $redis->client_kill;
    eventually { subscribed() && subscribed() != $id } "$name: reconnected";
    is $node->get('/?t=1')->status, 200, "$name: request served";
    my $bytes = $proxy->bytes->{s2c} - $before;
    note "$name: $bytes bytes of Redis";
    return $bytes;
}

eventually { subscribed() } 'subscribed';
is $node->get('/?t=1')->status, 200, 'request served';
cmp_ok $proxy->bytes->{s2c}, '>', $LARGE, 'certificate sent at first';
# the second connection begins while the first one is on its way
$proxy->delay(0.02);
cmp_ok reconnected("again $_"), '<', $LARGE, "$_: certificate not sent again"
    for 1 .. 8;

$proxy->delay(0);

# Redis forgets its sessions with the old certificate
my $other = $tls->issue('other', san => $SAN);
$redis->cmd(qw(CONFIG SET), 'tls-cert-file' => $other->{cert},
    'tls-key-file' => $other->{key});
cmp_ok reconnected('another'), '>', $LARGE, 'another certificate sent';

$t->done;
