#!/usr/bin/perl

# Where hiredis has no TLS, "nginx -t" refuses "ssl", with the reason and the
# place of the way out.

use lib 't/lib';
use Dsem::Pages;
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
plan(skip_all => 'the module has TLS') if !Dsem::Tls::missing($t);

for my $more ('', ' ssl_ca=/none.crt', ' ssl_verify=off',
    ' ssl_cert=/none.crt ssl_key=/none.key')
{
    my ($status, $said) = $t->test_conf(<<'EOF_CONF', MORE => $more);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis 127.0.0.1:6379 ssl%%MORE%%;
    server { listen 127.0.0.1:%%PORT%%; }
}
EOF_CONF
    is $status, 1, "ssl$more: refused";
    my @lines = grep { /\[emerg\]/ } split /\n/, $said;
    is scalar(@lines), 1, "ssl$more: one sentence";
    like "@lines", qr/"ssl" in "dsem_redis" directive cannot be used \(/,
        "ssl$more: names the parameter";
    like "@lines", qr/\(hiredis [\d.]+, with which .* has no TLS\), /,
        "ssl$more: names the reason";
    like "@lines", qr/\), see "TLS" in docs\/redis\.md in /,
        "ssl$more: names the way out";
}

# the way out is where the sentence says
ok section('TLS'), 'docs/redis.md: TLS';

$t->done;
