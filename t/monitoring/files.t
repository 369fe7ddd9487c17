#!/usr/bin/perl

# The files of monitoring/: rules that Prometheus accepts, with a test of each
# and a section of docs/alerts.md; a dashboard whose expressions are valid.

###############################################################################

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Monitoring;
use Dsem::Pages;
use Dsem::Test;

plan skip_all => 'promtool is not there, make test installs it'
    unless Dsem::Monitoring::there();

my $t = Dsem::Test->new;
my $monitoring = Dsem::Monitoring->new($t);

# rules

my $rules = 'dsem.rules.yml';
my $path = $monitoring->path($rules);
is($monitoring->promtool('check rules', $path), '', 'rules valid');
my @tests = qw(dsem.rules.test.yml dsem.rules.day.test.yml);
is($monitoring->promtool('test rules', join ' ',
    map { $monitoring->path($_) } @tests), '', 'rules fire when they should');

my %alert = $monitoring->alerts;
cmp_ok(scalar keys %alert, '>=', 15, 'alerts found');
my $alerts = page('docs/alerts.md');
is_deeply([$alerts =~ /^## (Dsem\w+)$/mg],
    [$monitoring->text($rules) =~ /alert: (\w+)/g],
    'alerts explained, in order');
my $tests = join '', map { $monitoring->text($_) } @tests;
for my $name (sort keys %alert) {
    my @fired = $tests =~ /alertname: $name\n.*\n\s+exp_alerts:\n/g;
    ok(scalar @fired, "$name: fires in a test");
    like($alert{$name}, qr/severity: (?:critical|warning|info)\n/,
        "$name: severity");
    like($alert{$name}, qr/$_: \S/, "$name: $_") for qw(summary description);
    like($alert{$name}, qr{runbook: docs/alerts\.md#\L$name\E$}m,
        "$name: runbook");
    like(section($name), qr/^\S.*^\*Do:\* \S/ms, "$name: meaning, what to do");
}

# what a refusal for an error logs

my @causes = grep { / / } section('DsemErrors') =~ /`([^`]+)`/g;
my @lines = page('README.md') =~ /`(dsem error: [^`]+)`/g;
cmp_ok(scalar @lines, '>=', 6, 'lines found');
for my $line (@lines) {
    ok(scalar(grep { index($line, $_) >= 0 } @causes),
        "DsemErrors names the cause: $line");
}

# scrape configuration of docs/operations.md

my ($scrape) = section('Monitoring') =~ /^```yaml\n(.*?)^```$/ms;
is($monitoring->promtool('check config', $monitoring->write('prometheus.yml',
    "rule_files: [$path]\n$scrape")), '', 'scrape configuration valid');

# dashboard

my $dashboard = decode_json($monitoring->text('dsem.json'));
my @panels = @{ $dashboard->{panels} };
my (%id, @cells);
for my $panel (@panels) {
    ok(!$id{ $panel->{id} }++, "panel $panel->{id}: id");
    my ($x, $y, $w, $h) = @{ $panel->{gridPos} }{qw(x y w h)};
    is(scalar(grep { $cells[$_->[0]][$_->[1]]++ }
        map { my $i = $_; map { [$i, $_] } $y .. $y + $h - 1 }
            $x .. $x + $w - 1), 0, "$panel->{title}: place");
    next if $panel->{type} eq 'row';
    like($panel->{description}, qr/\.$/, "$panel->{title}: description");
    ok($panel->{fieldConfig}{defaults}{unit}, "$panel->{title}: unit");
}
is_deeply([map { $_->{name} } @{ $dashboard->{templating}{list} }],
    [qw(datasource job semaphore node)], 'variables');

my @expressions = $monitoring->expressions;
cmp_ok(scalar @expressions, '>=', 30, 'expressions found');
my $n = 0;
is($monitoring->promtool('check rules', $monitoring->write('panels.yml',
    join '', "groups:\n- name: panels\n  rules:\n",
    map { $n++; "  - {record: panel$n, expr: '$_'}\n" } @expressions)), '',
    'expressions valid');

done_testing();
