#!/usr/bin/perl

# Servers of a pool over TLS: each request is at the server of its permit, and
# resumes the session that nginx has of that server.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $certificate = Dsem::Tls->certificates($t)->issue('servers');

my $servers = join "\n", map {
    my $port = '%%PORT' . ($_ + 2) . '%%';
    <<"EOF_CONF";
server {
    listen 127.0.0.1:$port ssl;
    ssl_certificate $certificate->{cert};
    ssl_certificate_key $certificate->{key};
    # since 1.29.7 nginx keeps connections by default
    keepalive_timeout 0;
    location / {
        add_header X-Session \$ssl_session_reused;
        proxy_pass http://@{[ $up[$_]->address ]};
    }
}
EOF_CONF
} 0, 1;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
upstream gpus {
    server 127.0.0.1:%%PORT2%%;
    server 127.0.0.1:%%PORT3%%;
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server "\$dsem_server \$upstream_addr";
    location / {
        proxy_ssl_protocols TLSv1.2;
        proxy_pass https://gpus;
    }
}
$servers
EOF_CONF

for (['a new session', '.'], ['resumed', 'r']) {
    my ($how, $session) = @$_;
    my @held = map { $node->begin('/?hang=1') } @up;
    eventually { join(' ', map { $_->now } @up) eq '1 1' } 'each has one';
    $_->release_all for @up;
    my %at = map {
        my $said = join ' ', $_->wait->status, $_->header('X-Server');
        ($said => $_->header('X-Session'));
    } @held;
    my @at = map { '127.0.0.1:' . $node->port($_) } 2, 3;
    is_deeply \%at, { map { ("200 $_ $_" => $session) } @at },
        "at its server, $how" or diag explain \%at;
}
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;

$t->done;
