#!/usr/bin/perl

# Redis is gone: until the fence a worker's own permits serve its requests,
# whatever dsem_on_error says, and what it had is remembered when the last of
# them has come free. Beyond that, and after the fence, dsem_on_error decides.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 3;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease %%LEASE%%;
dsem_reuse off;
dsem_status 503 error=500;
proxy_set_header X-Sem %%NODE%%-$dsem_name;
location /reject {
    dsem reject limit=100 queue=10 timeout=20s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem pass limit=100 queue=10 timeout=20s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /local {
    dsem local limit=100 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my @modes = qw(reject pass local);

# the fence of one is far away, that of the other is waited for
my ($node, $fenced) = map {
    my ($name, $lease) = @$_;
    $t->node($name, $conf, REDIS => $proxy->address, LEASE => $lease);
} [ far => '60s' ], [ near => "${LEASE}s" ];

sub said {
    my ($on, $request) = @_;
    return join ' ', @{ $on->logged($request) }{qw(status dsem_status)};
}

sub release { $up->release_nonce($_->nonce) for @_ }

my %runs;
for my $mode (@modes) {
    $runs{$mode} = [ map { $node->begin("/$mode?hang=1") } 1, 2 ];
    wait_for { $up->now("far-$mode") == 2 } 15, 'two requests running';
}
my %near = map { my $mode = $_;
    $_ => [ map { $fenced->begin("/$mode?hang=1") } 1, 2 ] } @modes;
wait_for { 3 == grep { $up->now("near-$_") == 2 } @modes } 15,
    'requests of the other';

# the fence is three quarters of the lease after a heartbeat
$redis->all_beat(2);
my $lost = now;
$proxy->refuse;
$proxy->cut;
my $fence = now + $LEASE * 3 / 4;
eventually { $_->grep_log(qr/unavailable \(/) } $_->name
    . ': redis unavailable' for $node, $fenced;

# the account empties, and its two permits serve the next two requests

release(map { @$_ } values %runs, $near{reject});
is $_->wait->status, 200, 'running request served'
    for map { @$_ } values %runs, $near{reject};

my %next;
for my $mode (@modes) {
    $next{$mode} = [ map { $node->begin("/$mode?hang=1") } 1, 2 ];
    eventually { $up->now("far-$mode") == 2 }
        "$mode: two own permits in use";
}
is said($node, $node->get('/reject')), '500 ERROR', 'reject: no third';
is said($node, $node->get('/pass')), '200 DEGRADED', 'pass: third passes';
my $third = $node->begin('/local');
# a later request of the same worker has its answer
is $node->get('/reject')->status, 500, 'reject: no fourth';
is $up->now('far-local'), 2, 'local: no third';

release(map { @$_ } values %next);
is said($node, $_->wait), '200 PASSED', 'on own permits: PASSED'
    for map { @$_ } values %next;
is said($node, $third->wait), '200 PASSED',
    'local: third waited for an own permit';

# after the fence nothing is certain

my $ended;
wait_for {
    $ended //= now if $fenced->get('/reject')->status == 500;
    now > $fence;
} 15, 'the fence';
is said($fenced, $fenced->get('/reject')), '500 ERROR',
    'reject: no own permit after the fence';
# a heartbeat may have been late; Redis was unavailable long before
cmp_ok(($ended // now) - $lost, '>', $LEASE / 3,
    'own permits until the fence');
# nor are those that come free now
my @last = map { @$_ } @near{qw(pass local)};
release(@last);
is $_->wait->status, 200, 'request of before served' for @last;
is said($fenced, $fenced->get('/pass')), '200 DEGRADED',
    'pass: DEGRADED after the fence';
is said($fenced, $fenced->get('/local')), '200 DEGRADED',
    'local: local permits then';

$proxy->refuse(0);
eventually { said($_, $_->get('/reject')) eq '200 PASSED' }
    $_->name . ': granted again' for $node, $fenced;

$t->done;
