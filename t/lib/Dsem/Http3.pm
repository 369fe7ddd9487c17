package Dsem::Http3;

# What a test of HTTP/3 needs: an nginx that has it, a curl that speaks it
# (DSEM_CURL, by default curl), and a certificate. A test ends here where one of
# these is missing.
#
#   my @curl = http3_curl($t);      # cert.pem and key.pem are in $t->dir
#
# Called by: t/http/http3.t, t/hold/http3.t.

use strict;
use warnings;

use Exporter qw(import);
use Test::More ();

our @EXPORT_OK = qw(http3_curl);

sub http3_curl {
    my ($t) = @_;
    my @curl = split ' ', $ENV{DSEM_CURL} // 'curl';
    my $nginx = $ENV{DSEM_NGINX} // 'nginx';
    _skip('nginx without HTTP/3') if qx($nginx -V 2>&1) !~ /http_v3_module/;
    _skip('curl without HTTP/3') if qx(@curl -V 2>/dev/null) !~ /\bHTTP3\b/;
    my $dir = $t->dir;
    _skip('no openssl')
        if system "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost"
            . " -keyout $dir/key.pem -out $dir/cert.pem >/dev/null 2>&1";
    return @curl;
}

sub _skip { Test::More::plan(skip_all => $_[0]) }

1;
