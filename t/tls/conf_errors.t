#!/usr/bin/perl

# "nginx -t" finds every error in the parameters of TLS, with one sentence that
# names the parameter or the file.

use lib 't/lib';
use Dsem::Test;
use Dsem::Tls;

my $t = Dsem::Test->new;
my $missing = Dsem::Tls::missing($t);
my $tls = Dsem::Tls->certificates($t);
my $ca = $tls->ca;
my ($own, $other) = map { $tls->issue($_) } qw(own other);
my $dir = $t->dir;

my $words = "$dir/words";
open my $fh, '>', $words or die "$words: $!";
print $fh "no certificate\n";
close $fh;
system "openssl ec -aes128 -passout pass:word -in $own->{key} "
    . "-out $dir/locked.key 2>/dev/null";

sub said {
    my ($words) = @_;
    return $t->test_conf(<<'EOF_CONF', WORDS => $words);
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%WORDS%%;
    server { listen 127.0.0.1:%%PORT%%; }
}
EOF_CONF
}

sub wrong {
    my ($words, $sentence) = @_;
    my $name = $words =~ s/\S+:1 ?//r =~ s/\Q$dir\E//gr;
    my ($status, $said) = said($words);
    is $status, 1, "$name: refused";
    my @lines = grep { /\[emerg\]/ } split /\n/, $said;
    is scalar(@lines), 1, "$name: one sentence";
    like "@lines", qr/\[emerg\] \Q$sentence\E in \S+:\d+$/,
        "$name: names the cause";
}

my $in = 'in "dsem_redis" directive';
my $at = '127.0.0.1:1';

wrong("$at $_=on", qq("$_" without "ssl" $in))
    for qw(ssl_ca ssl_cert ssl_key ssl_name ssl_verify);
wrong("$at ssl ssl", qq(duplicate parameter "ssl" $in));
wrong("$at ssl=on", qq(invalid parameter "ssl" $in));
wrong("$at ssl ssl_ca=", qq("ssl_ca" parameter $in has no value));
wrong("$at ssl ssl_cert=$own->{cert}", qq("ssl_cert" without "ssl_key" $in));
wrong("$at ssl ssl_key=$own->{key}", qq("ssl_key" without "ssl_cert" $in));
wrong('unix:/redis.sock ssl',
    qq("ssl" with a path, for which Redis has no TLS, $in));

SKIP: {
    skip $missing, 1 if $missing;

    wrong("$at ssl ssl_verify=maybe", 'invalid value "maybe" of "ssl_verify" '
        . qq(parameter $in, it must be "on" or "off"));

    my $none = "$dir/conf/none.crt";
    my $load = sub {
        my ($words, $parameter, $file, $cause) = @_;
        wrong("$at ssl $words", qq(cannot load "$parameter" file "$file" of )
            . qq("dsem_redis" directive ($cause)));
    };
    # from the directory of nginx.conf
    $load->('ssl_ca=none.crt', ssl_ca => $none, 'No such file or directory');
    $load->("ssl_ca=$words", ssl_ca => $words,
        'no certificate or crl found');
    $load->("ssl_cert=none.crt ssl_key=$own->{key}", ssl_cert => $none,
        'No such file or directory');
    $load->("ssl_cert=$own->{cert} ssl_key=none.crt", ssl_key => $none,
        'No such file or directory');
    $load->("ssl_cert=$own->{cert} ssl_key=$words", ssl_key => $words,
        'no private key in it');
    $load->("ssl_cert=$own->{cert} ssl_key=$other->{key}",
        ssl_key => $other->{key}, 'key values mismatch');
    $load->("ssl_cert=$own->{cert} ssl_key=$dir/locked.key",
        ssl_key => "$dir/locked.key", 'it is encrypted with a password');

    for my $good ("$at ssl", "$at ssl ssl_verify=off",
        "$at ssl ssl_ca=$ca ssl_verify=on ssl_name=redis.test "
        . "ssl_cert=$own->{cert} ssl_key=$own->{key}",
        "127.0.0.1:1 127.0.0.2:1 mode=sentinel master=m ssl ssl_ca=$ca")
    {
        my ($status, $said) = said($good);
        is $status, 0, 'valid: ' . $good =~ s/\Q$dir\E//gr or diag $said;
    }
}

$t->done;
