#!/usr/bin/perl

# A real Prometheus scrapes two nodes with the rules of monitoring/: it accepts
# all that they export, all metrics of rules and dashboard are there, and
# alerts fire and end.

###############################################################################

use lib 't/lib';
use Dsem::Monitoring;
use Dsem::Test;

plan skip_all => 'Prometheus is not there, make test installs it'
    unless Dsem::Monitoring::there();

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $monitoring = Dsem::Monitoring->new($t);

# alerts at once, and rates of the last seconds
my $rules = $monitoring->write('quick.rules.yml',
    $monitoring->text('dsem.rules.yml')
        =~ s/for: \d+\w/for: 0s/gr =~ s/\[\d+m\]/[10s]/gr);

my $conf = <<'EOF_CONF';
worker_processes 1;
# a lost Redis is awaited for so long
dsem_redis_connect_timeout 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /reports {
        dsem reports limit=1 queue=1 timeout=100ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /patient {
        dsem reports limit=1 queue=1 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /odd {
        dsem $http_x_name limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /auto {
        dsem found limit=auto;
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /dsem/metrics { dsem_api; }
}
EOF_CONF
my ($n1, $n2) = $t->fleet(2, $conf);
my @targets = map { '127.0.0.1:' . $_->port } $n1, $n2;
my $server = $monitoring->start($rules, @targets);

# one of each

is($n1->get('/patient')->status, 200, 'passed');
is($n1->get('/odd', 'X-Name' => "\"\\\xff}\n{a"  =~ tr/\n/ /r)->status, 200,
    'odd name');
is($n1->get('/auto')->status, 200, 'a limit that is found');
my $held = $n1->begin('/patient?hang=1');
wait_for { $up->now == 1 } 10, 'a request at the backend';
is($n1->get('/reports')->status, 503, 'timed out');
my $waits = $n1->begin('/patient');
my $text;
eventually {
    $text = $n1->get('/dsem/metrics')->body;
    $text =~ /^dsem_fleet_waiting_requests\{semaphore="reports"\} 1$/m;
} 'one waits, in the fleet';
$up->release(1);
$_->wait for $held, $waits;

# what a node exports

$text = $n1->get('/dsem/metrics')->body;
is($monitoring->promtool('check metrics', '', $text), '', 'metrics valid');
for my $name ($monitoring->metrics) {
    like($text, qr/^$name(?:\{[^\n]*\})? [-+.\de]+$/m, "exported: $name");
}
for my $result (qw(passed queued rejected timeout error degraded aborted
    rejected_dry_run timeout_dry_run error_dry_run))
{
    like($text, qr/^dsem_requests_total\{(?=[^}]*semaphore="reports")
        [^}]*result="$result"[^}]*\}\ \d+$/mx, "result: $result");
}

# Prometheus

eventually { 2 == grep { $_->{health} eq 'up' } targets() } 'both nodes up';
wait_for { 2 == value('dsem_redis_state_seconds') } 10, 'the last figures';
is_deeply([sort map { $_->{metric}{node} } value('dsem_info')], [qw(n1 n2)],
    'names of the nodes');
# it may have asked before the last request
eventually { same([ map { "$_->{metric}{result} $_->{value}[1]" }
    grep { $_->{value}[1] > 0 }
    value('sum by (result) (dsem_requests_total{semaphore="reports"})') ],
    ['passed 2', 'queued 1', 'timeout 1']) } 'counts' or diag $text;
eventually { evaluated() } 'rules evaluated';
# that of the timeout, where it was scraped, ends after the seconds of a rate
eventually { !alerts() } 'no alert', 30;
is_deeply([map { $_->{lastError} // () }
    map { @{ $_->{rules} } } @{ $server->query('rules')->{groups} }], [],
    'no rule fails');

# of the dashboard: a result, except of rates and rare events

my $rare = qr/rate\(|increase\(|disagreeing|!=/;
for my $expression ($monitoring->expressions) {
    my @got = eval { value($expression) };
    is($@, '', "evaluated: $expression");
    cmp_ok(scalar @got, '>', 0, "result: $expression")
        if $expression !~ $rare;
}

# refused requests

$held = $n2->begin('/reports?hang=1');
wait_for { $up->now == 1 } 10, 'a request at the backend';
eventually {
    $n2->get('/reports');
    grep { $_ eq 'DsemTimeouts reports' } alerts();
} 'timeouts noticed';
$up->release(1);
is($held->wait->status, 200, 'the first answered');

# Redis

$redis->stop;
my @unavailable = map { "DsemRedisUnavailable $_" } @targets;
eventually { same([grep { /Redis/ } alerts()], \@unavailable) }
    'Redis missed by both nodes';
my ($alert) = grep { $_->{labels}{alertname} eq 'DsemRedisUnavailable' }
    @{ $server->query('alerts')->{alerts} };
is($alert->{annotations}{summary},
    "$alert->{labels}{instance} cannot reach Redis", 'summary');
$redis->start;
eventually { !grep { /Redis/ } alerts() } 'Redis back';

# two fleets of one node and one worker each

ok(!(grep { /Split/ } alerts()), 'one fleet');
$n2->reload($conf =~ s/^server/dsem_prefix other;\nserver/mr);
eventually { grep { /^DsemFleetSplit/ } alerts() } 'two fleets noticed', 40;

# a node

$n2->quit;
eventually { grep { $_ eq "DsemNodeMissing $targets[1]" } alerts() }
    'node missed';

done_testing();

###############################################################################

sub targets { @{ $server->query('targets')->{activeTargets} } }

sub value {
    my ($expression) = @_;
    my $query = $expression =~ s/([^\w])/sprintf '%%%02X', ord $1/ger;
    my $data = $server->query("query?query=$query") // die $expression;
    return @{ $data->{result} };
}

# Every group, since the nodes are up.
sub evaluated {
    return !grep { !@{ $_->{rules} }
        || grep { $_->{lastEvaluation} =~ /^0001/ } @{ $_->{rules} }
    } @{ $server->query('rules')->{groups} };
}

# "name of the alert, and of its semaphore or node"
sub alerts {
    return sort map { join ' ', $_->{alertname},
            $_->{semaphore} // $_->{instance} // () }
        map { $_->{labels} } grep { $_->{state} eq 'firing' }
        @{ $server->query('alerts')->{alerts} };
}

sub same { "@{[ sort @{ $_[0] } ]}" eq join ' ', sort @{ $_[1] } }
