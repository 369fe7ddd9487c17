package Dsem::Tls;

# Certificates, and Redis servers that use them. Everything is made by openssl
# in the test's directory. A test ends here where the module has no TLS.
#
#   my $tls = Dsem::Tls->new($t);
#   my $redis = $tls->redis;                    # for redis.test and 127.0.0.1
#   my $node = $t->node('a', $conf, REDIS => $tls->to($redis));
#
# ca($name): the file of an authority; issue($name, %opt): {cert, key}, files,
# with ca (name), san, expired; redis(%opt): Dsem::Redis with a port for TLS,
# options of issue, and auth => 'yes' (client certificates), args, password;
# unavailable($node): its lines of an unavailable Redis;
# to($redis, %opt): address and parameters of dsem_redis, address can be given;
# missing($t): why the module has no TLS, or ''; certificates($t): as new,
# where the module needs no TLS.
#
# Called by: t/tls/*.t.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(make_path);
use Test::More ();

use Dsem::Wait qw(wait_for);

sub new {
    my ($class, $t) = @_;
    my $missing = missing($t);
    Test::More::plan(skip_all => $missing) if $missing;
    return $class->certificates($t);
}

sub certificates {
    my ($class, $t) = @_;
    my $dir = $t->dir . '/certificates';
    make_path($dir);
    return bless { t => $t, dir => $dir, n => 0, servers => 0 }, $class;
}

sub missing {
    my ($t) = @_;
    my (undef, $said) = $t->test_conf(<<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis 127.0.0.1:1 ssl;
    server { listen 127.0.0.1:%%PORT%%; }
}
EOF_CONF
    return $said =~ /cannot be used \((.*?)\)/ ? $1 : '';
}

sub _openssl {
    my ($self, @args) = @_;
    my $log = "$self->{dir}/log";
    system(qq(openssl @args >>"$log" 2>&1)) == 0
        or croak "openssl @args: see $log";
    return;
}

sub _write {
    my ($self, $name, $text) = @_;
    my $path = "$self->{dir}/$name";
    open my $fh, '>', $path or croak "$path: $!";
    print $fh $text;
    close $fh;
    return $path;
}

sub _key {
    my ($self, $path) = @_;
    $self->_openssl('ecparam -genkey -noout -name prime256v1 -out', $path);
    return $path;
}

sub ca {
    my ($self, $name) = @_;
    $name //= 'ca';
    my $path = "$self->{dir}/$name";
    return "$path.crt" if -e "$path.crt";
    my $key = $self->_key("$path.key");
    # Python 3.13 wants a key usage, and the identifier of its key in others
    $self->_openssl("req -x509 -new -key $key -days 2 -out $path.crt",
        "-subj '/CN=dsem test $name'",
        '-addext keyUsage=critical,keyCertSign');
    return "$path.crt";
}

sub issue {
    my ($self, $name, %opt) = @_;
    my $ca = $self->ca($opt{ca});
    my $path = "$self->{dir}/$name";
    my $key = $self->_key("$path.key");
    my $extensions = $self->_write("$name.ext",
        "authorityKeyIdentifier=keyid\nsubjectAltName="
        . ($opt{san} // 'DNS:redis.test,IP:127.0.0.1') . "\n");
    my $conf = $self->_write("$name.cnf", <<"EOF_CONF");
[ca]
default_ca = this
[this]
database = $path.index
serial = $path.serial
new_certs_dir = $self->{dir}
default_md = sha256
policy = any
[any]
commonName = optional
EOF_CONF
    $self->_write("$name.index", '');
    $self->_write("$name.serial", sprintf "%04X\n", ++$self->{n});
    my ($from, $to) = map { _time($_) } $opt{expired} ? (-2, -1) : (-1, 2);
    $self->_openssl("req -new -key $key -out $path.csr",
        '-subj /CN=other.test');
    $self->_openssl("ca -batch -notext -config $conf -cert $ca",
        '-keyfile', $ca =~ s/crt$/key/r, "-in $path.csr -out $path.crt",
        "-extfile $extensions -startdate $from -enddate $to");
    return { cert => "$path.crt", key => $key };
}

# some days from now, as openssl has it
sub _time {
    my ($days) = @_;
    my ($s, $m, $h, $d, $month, $year) = gmtime(time + 86400 * $days);
    return sprintf '%02d%02d%02d%02d%02d%02dZ', $year % 100, $month + 1,
        $d, $h, $m, $s;
}

sub redis {
    my ($self, %opt) = @_;
    my $own = $self->issue('server' . ++$self->{servers}, %opt);
    return $self->{t}->redis(tls => {
        'cert-file' => $own->{cert}, 'key-file' => $own->{key},
        'ca-cert-file' => $self->ca($opt{ca}),
        'auth-clients' => $opt{auth} // 'no',
    }, map { $_ => $opt{$_} } grep { $opt{$_} } qw(args password));
}

# The lines of a node whose time to connect ended between two attempts: during
# one, the log names what that attempt waits for.
sub unavailable {
    my ($self, $node) = @_;
    my $line = qr/\[(?:warn|error|alert|crit)\].*dsem: redis .*unavailable \(/;
    for my $again (1 .. 5) {
        wait_for { $node->grep_log($line) } 15, 'Redis unavailable';
        my @lines = $node->grep_log($line);
        return @lines if $lines[0] !~ /unavailable \((?:connect|no reply)/;
        $node->stop;
        $node->clear_logs;
        $node->start;
    }
    return;
}

sub to {
    my ($self, $redis, %opt) = @_;
    return join ' ', $opt{address} // $redis->tls_address, 'ssl',
        'ssl_ca=' . ($opt{ca} // $self->ca);
}

1;
