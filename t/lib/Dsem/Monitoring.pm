package Dsem::Monitoring;

# The files of monitoring/ as a test needs them, and Prometheus.
#
#   Dsem::Monitoring::there()       false: no Prometheus on this machine
#   new($t), path($file), text($file), slurp($path), source: the C code of
#   http/; write($file, $text): in the test's directory; promtool($command, $file, $input): '' or what it says;
#   alerts: name => text; expressions: those of the dashboard, for all values
#   of the variables; metrics: names in rules and dashboard;
#   start($rules, @targets): a server; its first scrape comes after five
#   seconds, in which the test goes on, then five come in a second;
#   query($path): the "data" of its API.
#
# Called by: t/monitoring/*.t, t/package/*.t; Fleet::Stack has the server only.

use strict;
use warnings;

use Carp qw(croak);
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Client;
use Dsem::Process;
use Dsem::Wait qw(wait_for);

# between two scrapes, and between two evaluations
use constant INTERVAL => '200ms';

my $tool = 'promtool';

sub there { return qx($tool --version 2>/dev/null) =~ /^promtool/ }

sub new {
    my ($class, $t) = @_;
    return bless { t => $t, root => $t->root . '/monitoring' }, $class;
}

sub path { return "$_[0]{root}/$_[1]" }

sub text { return $_[0]->slurp($_[0]->path($_[1])) }

sub slurp {
    my ($self, $path) = @_;
    open my $fh, '<', $path or croak "$path: $!";
    local $/;
    return scalar(<$fh>) // '';
}

# All of http/, where variables are.
sub source {
    my ($self) = @_;
    return join '', map { $self->slurp($_) }
        glob "$self->{root}/../ngx_module/http/*.c";
}

sub write {
    my ($self, $file, $text) = @_;
    my $path = $self->{t}->dir . "/$file";
    open my $fh, '>', $path or croak "$path: $!";
    print $fh $text;
    close $fh or croak "$path: $!";
    return $path;
}

sub promtool {
    my ($self, $command, $file, $input) = @_;
    $file //= '';
    my $from = defined $input ? '< ' . $self->write('input', $input) : '';
    my $said = qx($tool $command $file 2>&1 $from);
    return $? ? $said || "status $?" : '';
}

###########################################################################
# rules and dashboard

sub alerts {
    my ($self) = @_;
    my (undef, @alert) = split /^      - alert: /m,
        $self->text('dsem.rules.yml');
    return map { /^(\w+)\n/ ? ($1 => $_) : () } @alert;
}

sub expressions {
    my ($self) = @_;
    my $dashboard = decode_json($self->text('dsem.json'));
    return map { s/"\$\w+"/".*"/gr =~ s/\$__rate_interval/1m/gr }
        map { $_->{expr} } map { @{ $_->{targets} // [] } }
        @{ $dashboard->{panels} };
}

# As they are in the output of a node: histograms have the names of their parts.
sub metrics {
    my ($self) = @_;
    my %name = map { $_ => 1 }
        map { s/"[^"]*"//gr =~ /\b(dsem_\w+)/g } $self->expressions,
        map { /^        expr: (.*?)^        (?:for|labels):/ms }
            values %{ { $self->alerts } };
    return sort keys %name;
}

###########################################################################
# a server

sub start {
    my ($self, $rules, @targets) = @_;
    my $dir = $self->{t}->dir;
    my $port = $self->{t}->free_port;
    my $list = join ', ', map { "'$_'" } @targets;
    my $interval = INTERVAL;
    my $conf = $self->write('prometheus.yml', <<"EOF");
global:
  scrape_interval: $interval
  evaluation_interval: $interval
rule_files: [$rules]
scrape_configs:
  - job_name: dsem
    metrics_path: /dsem/metrics
    static_configs:
      - targets: [$list]
EOF
    # else the first scrape may come after ten seconds
    $self->{url} = prometheus($dir, $port, $conf,
        '--scrape.discovery-reload-interval=100ms');
    return $self;
}

# Prometheus with this configuration; its log and data are in the directory.
# Returns its address.
sub prometheus {
    my ($dir, $port, $conf, @more) = @_;
    Dsem::Process->spawn(name => 'prometheus', log => "$dir/prometheus.log",
        argv => ['prometheus', "--config.file=$conf",
            "--storage.tsdb.path=$dir/prometheus",
            "--web.listen-address=127.0.0.1:$port", @more]);
    return "http://127.0.0.1:$port";
}

# Waits for the Prometheus at this address.
sub ready {
    my ($url) = @_;
    return wait_for {
        my $ready = eval { Dsem::Client->new->get("$url/-/ready") };
        $ready && $ready->status == 200;
    } 30, 'Prometheus to start';
}

sub query {
    my ($self, $path) = @_;
    $self->{ready} //= ready($self->{url});
    my $answer = $self->{t}->client->get("$self->{url}/api/v1/$path");
    return decode_json($answer->body)->{data};
}

1;
