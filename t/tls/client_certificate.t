#!/usr/bin/perl

# Redis asks for a certificate of the client. With ssl_cert and ssl_key requests
# are served. Without them, or with a certificate of another authority, Redis
# ends the connection, and one line of the log names the cause.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $tls = Dsem::Tls->new($t);
my $redis = $tls->redis(auth => 'yes');
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%TLS%%;
dsem_redis_connect_timeout 10s;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=10 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub client {
    my ($name, %opt) = @_;
    my $own = $tls->issue($name, %opt);
    # the files are read as nginx reads its own
    return $tls->to($redis)
        . " ssl_cert=../certificates/$name.crt ssl_key=$own->{key}";
}

my $known = $t->node('known', $conf, TLS => client('nginx'));
is $known->get('/?t=1')->status, 200, 'known: request served';
is scalar($known->grep_log(qr/\[(?:warn|error|alert|crit)\]/)), 0,
    'known: no warning';

sub refused {
    my ($name, $to, $cause) = @_;
    my $node = $t->node($name, $conf, TLS => $to);
    is $node->get('/?t=1')->status, 503, "$name: request refused";
    my $began = now;
    wait_for { now > $began + 2 } 5, 'more attempts';
    my @lines = $node->grep_log(qr/\[(?:warn|error|alert|crit)\].*dsem: /);
    is scalar(@lines), 1, "$name: logged once" or diag join "\n", @lines;
    like "@lines", qr/unavailable \(TLS failed: $cause\), requests/,
        "$name: cause named";
    is $t->state->session_count, 1, "$name: no session";
}

refused('none', $tls->to($redis), '.*alert certificate required');
refused('other', client('stranger', ca => 'other'), '.*alert unknown ca');

is $known->get('/?t=1')->status, 200, 'known: request served again';

$t->done;
