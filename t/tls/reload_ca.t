#!/usr/bin/perl

# A reload reads the authorities anew: the file of ssl_ca has another one, and
# Redis another certificate. Before the reload the new certificate is refused.
# A reload with a broken file is refused, and the old configuration stays.

use lib 't/lib';
use File::Copy qw(copy);

use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis;
my $up = $t->upstream;
my $file = $t->dir . '/authorities.crt';

sub trust { copy($_[0], $file) or die "$file: $!" }

# an open connection keeps its certificate
sub certify {
    my ($with) = @_;
    $redis->cmd(qw(CONFIG SET), 'tls-cert-file' => $with->{cert},
        'tls-key-file' => $with->{key},
        'tls-ca-cert-file' => $tls->ca('new'));
    $redis->client_kill;
}

trust($tls->ca);
my $node = $t->node('a', <<'EOF_CONF', TLS => $tls->to($redis, ca => $file));
worker_processes 1;
dsem_redis %%TLS%%;
dsem_on_error reject;
dsem_lease 1s;
location / {
    dsem api limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
is $node->get('/?t=1')->status, 200, 'request served';

certify($tls->issue('next', ca => 'new'));
eventually { $node->grep_log(
    qr/unavailable \(TLS handshake failed: self-signed certificate/) == 1 }
    'new authority refused';
# until the fence the worker has what it had
eventually { $node->get('/?t=1')->status == 503 } 'request refused';

$t->expect_log(qr/cannot load "ssl_ca"/);
open my $fh, '>', $file or die "$file: $!";
close $fh;
$node->signal('HUP');
eventually { $node->grep_log(
    qr/\[emerg\].*cannot load "ssl_ca" file "\S+" of "dsem_redis"/) }
    'empty file refused';
is $node->get('/?t=1')->status, 503, 'configuration kept';

trust($tls->ca('new'));
$node->reload;
is $node->get('/?t=1')->status, 200, 'request served after reload';

$t->done;
