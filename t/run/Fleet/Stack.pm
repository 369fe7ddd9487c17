package Fleet::Stack;

# The fleet of "make demo": what compose.yaml starts in containers, with the same
# files of packaging/demo and monitoring, as processes of this machine. Grafana
# is started where it is installed.
#
# Called by: demo.pl.

use strict;
use warnings;

use parent 'Fleet';

use File::Path qw(make_path);

use Dsem::Monitoring;
use Dsem::Process;

use Fleet::Conf;

my $ROOT = $Dsem::Test::ROOT;

# nodes at port, port + 1 and port + 2, the backend at port + 10
use constant { PROMETHEUS => 11, GRAFANA => 12 };

sub new {
    my ($class, %opt) = @_;
    return $class->SUPER::new(
        text => _read('packaging/demo/nginx.conf'),
        dir => "$ROOT/build/demo/$opt{port}", %opt);
}

sub names { qw(a b c) }

sub ports {
    my ($self) = @_;
    return ($self->SUPER::ports, map { $self->{port} + $_ } PROMETHEUS, GRAFANA);
}

sub start {
    my ($self) = @_;
    # Valkey where it is, Redis otherwise
    local $ENV{DSEM_REDIS_SERVER} = $self->redis_server;
    $self->SUPER::start;
    $self->start_prometheus;
    $self->start_grafana if _grafana();
    return $self;
}

sub redis_server {
    my ($found) = grep { _in_path($_) } $ENV{DSEM_REDIS_SERVER} // (),
        'valkey-server';
    return $found // 'redis-server';
}

sub restart_redis {
    my ($self) = @_;
    local $ENV{DSEM_REDIS_SERVER} = $self->redis_server;
    $self->{redis}->stop->start;
}

sub conf {
    my ($self, $name) = @_;
    return join "\n", 'daemon off;', $> == 0 ? 'user root;' : (),
        $self->relocated($name);
}

###########################################################################
# Prometheus and Grafana

sub prometheus { 'http://127.0.0.1:' . ($_[0]{port} + PROMETHEUS) }
sub grafana { _grafana() && 'http://127.0.0.1:' . ($_[0]{port} + GRAFANA) }

sub start_prometheus {
    my ($self) = @_;
    my $text = _read('packaging/demo/prometheus.yml')
        =~ s{/etc/prometheus/}{$ROOT/monitoring/}r
        =~ s{"([abc]):8080"}{'"127.0.0.1:' . $self->port_of($1) . '"'}ger;
    my $dir = $self->{dir};
    Dsem::Monitoring::ready(Dsem::Monitoring::prometheus($dir,
        $self->{port} + PROMETHEUS, _write("$dir/prometheus.yml", $text)));
}

# Where packages of Grafana have it.
sub _grafana {
    return -d '/usr/share/grafana' && (_in_path('grafana-server')
        // (grep { -x } '/usr/share/grafana/bin/grafana-server')[0]);
}

sub start_grafana {
    my ($self) = @_;
    my $dir = "$self->{dir}/grafana";
    make_path("$dir/$_") for qw(datasources dashboards data);
    my $from = 'packaging/demo/grafana';
    _write("$dir/datasources/dsem.yml", _read("$from/datasources.yml")
        =~ s{http://prometheus:9090}{$self->prometheus}er);
    _write("$dir/dashboards/dsem.yml", _read("$from/dashboards.yml")
        =~ s{/etc/grafana/provisioning}{$dir}r);
    _write("$dir/dashboards/dsem.json", _read('monitoring/dsem.json'));
    local $ENV{GF_AUTH_ANONYMOUS_ENABLED} = 'true';
    Dsem::Process->spawn(name => 'grafana', log => "$dir/log",
        argv => [_grafana(), '--homepath=/usr/share/grafana',
            "cfg:default.paths.data=$dir/data",
            "cfg:default.paths.provisioning=$dir",
            'cfg:default.server.http_addr=127.0.0.1',
            'cfg:default.server.http_port=' . ($self->{port} + GRAFANA)]);
}

sub _in_path {
    my ($name) = @_;
    return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}

sub _read { Fleet::Conf::read_text("$ROOT/$_[0]") }

sub _write {
    my ($path, $text) = @_;
    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh or die "$path: $!";
    return $path;
}

1;
