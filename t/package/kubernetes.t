#!/usr/bin/perl

# packaging/kubernetes: valid by the schemas of Kubernetes, KEDA and
# prometheus-operator; each nginx.conf is one; the rules are those of monitoring/;
# times add up to less than the grace period; probes do not ask dsem.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Monitoring;
use Dsem::Pages;
use Dsem::Test;

my $modules = Dsem::Test->root . '/build/page';
plan skip_all => '"make test T=t/package" installs the packages of npm'
    unless -d "$modules/node_modules/kubernetes-models";

my $t = Dsem::Test->new;
my $monitoring = Dsem::Monitoring->new($t);
my $folder = 'packaging/kubernetes';
my %of;

# valid, each kind

my $rules = qx($folder/rules);
my @files = (sort(glob "$folder/*.yaml"), $monitoring->write('rules.yaml', $rules));
my $wrong = $monitoring->write('wrong.yaml',
    page("$folder/nginx.yaml") =~ s/replicas: 3/replicas: "3"/r);
my $said = decode_json(
    qx(node t/package/validate.mjs $modules kubernetes @files $wrong));
for my $path (@files) {
    for (@{ $said->{$path} }) {
        my ($document, $errors) = @$_;
        is_deeply($errors, [], "$path: $document->{kind} valid");
        push @{ $of{ $document->{kind} } }, $document;
    }
}
is_deeply({ map { $_ => scalar @{ $of{$_} } } keys %of }, {
    ConfigMap => 2, Deployment => 1, Ingress => 1, PodDisruptionBudget => 1,
    PrometheusRule => 1, ScaledObject => 1, Service => 2, ServiceMonitor => 1,
}, 'all kinds');
like(join("\n", map { @{ $_->[1] } } @{ $said->{$wrong} }),
    qr{^Deployment: /spec/replicas must be integer}, 'errors are named');

# nginx.conf

my ($own, $controller) = sort { !!$a->{data}{'main-snippets'}
    <=> !!$b->{data}{'main-snippets'} } @{ $of{ConfigMap} };
my $conf = $own->{data}{'nginx.conf'};
tested('nginx.conf', $conf);

# the controller writes what is around its snippets
my $snippets = $controller->{data};
my $location = $of{Ingress}[0]{metadata}{annotations}{'nginx.org/location-snippets'};
tested('snippets', "$snippets->{'main-snippets'}events { }\nhttp {\n"
    . "$snippets->{'http-snippets'}server {\nlisten 8080;\nlocation /reports/ {\n"
    . "${location}proxy_pass http://127.0.0.1:1;\n}\n}\n}\n");

# the Deployment

my ($spec) = map { $_->{spec}{template}{spec} } @{ $of{Deployment} };
my ($container) = @{ $spec->{containers} };
my %port = map { $_->{name} => $_->{containerPort} } @{ $container->{ports} };
is_deeply([sort $conf =~ /listen (\d+)/g], [sort values %port],
    'its ports are those of nginx.conf');
for (qw(readinessProbe livenessProbe)) {
    is_deeply($container->{$_}{httpGet}, { path => '/health',
        port => 'metrics' }, "$_: nginx itself");
}
my $stop = $container->{lifecycle}{preStop}{exec}{command}[-1];
my ($sleep) = $stop =~ /^sleep (\d+);/;
my ($shutdown) = $conf =~ /^worker_shutdown_timeout (\d+)s;/m;
cmp_ok($sleep + $shutdown, '<', $spec->{terminationGracePeriodSeconds},
    'time for a graceful exit');
my ($pid) = $conf =~ /^pid (\S+);/m;
like($stop, qr/cat \Q$pid\E.*-e \Q$pid\E/, 'preStop has the pid file');
my @mounts = map { $_->{mountPath} } @{ $container->{volumeMounts} };
like($pid, qr{^/tmp/}, 'a directory that nginx may write to');
is_deeply(\@mounts, [qw(/etc/nginx/nginx.conf /tmp)], 'and no other');

# names and labels

my $labels = $of{Deployment}[0]{spec}{template}{metadata}{labels};
is_deeply($_->{spec}{selector}{matchLabels} // $_->{spec}{selector}, $labels,
    "$_->{kind}: selects the pods")
    for @{ $of{Deployment} }, @{ $of{PodDisruptionBudget} }, @{ $of{Service} };
my ($metrics) = grep { $_->{metadata}{name} =~ /metrics/ } @{ $of{Service} };
my $monitor = $of{ServiceMonitor}[0]{spec};
is_deeply($monitor->{selector}{matchLabels}, $metrics->{metadata}{labels},
    'ServiceMonitor: selects the Service');
is($monitor->{endpoints}[0]{port}, $metrics->{spec}{ports}[0]{name}, 'its port');
like($conf, qr/location = \Q$monitor->{endpoints}[0]{path}\E \{\s+dsem_api;/,
    'its path');

# rules and query

SKIP: {
    skip 'Prometheus is not there, make test installs it', 4 unless Dsem::Monitoring::there();
    is($monitoring->promtool('check rules', $monitoring->write('rules.yml',
        Cpanel::JSON::XS->new->encode($of{PrometheusRule}[0]{spec}))), '',
        'rules valid');
    my $query = $of{ScaledObject}[0]{spec}{triggers}[0]{metadata}{query};
    my ($job, $semaphore) = $query =~ /job="(.*?)",\s+semaphore="(.*?)"/;
    is($job, $metrics->{metadata}{name}, 'query: job');
    like($conf, qr/^ +dsem \Q$semaphore\E limit=/m, 'query: semaphore');
    is($monitoring->promtool('check rules', $monitoring->write('query.yml',
        Cpanel::JSON::XS->new->encode({ groups => [{ name => 'q', rules =>
            [{ record => 'q', expr => $query }] }] }))), '', 'query valid');
}
my ($groups) = $rules =~ /^(  groups:\n.*)\z/ms;
my ($source) = page('monitoring/dsem.rules.yml') =~ /^(groups:\n.*)\z/ms;
is($groups =~ s/^  //mgr, $source, 'the rules of monitoring/, all of them');

done_testing;

###############################################################################

# By nginx -t: names of services are none of this machine.
sub tested {
    my ($name, $text) = @_;
    my $dir = '%%DIR%%';
    $text =~ s{^load_module .*}{%%GLOBALS%%}m or die "$name: no load_module";
    $text =~ s{^(?:pid|error_log) .*\n}{}mg;
    $text =~ s{/dev/stdout}{$dir/access.log};
    $text =~ s{ /tmp/}{ $dir/temp/}g;
    $text =~ s{\b(?:redis|backend)[\w.]*:}{127.0.0.1:}g;
    my ($status, $said) = $t->test_conf($text);
    is($status, 0, "$name: valid") or diag $said;
}
