#!/usr/bin/perl

# The three modes of dsem_on_error in one node, with requests that run,
# requests that wait at the outage, and later requests. Each mode reports its
# own status.

use lib 't/lib';
use Dsem::Test;

my $LEASE = 20;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease 20s;
dsem_status 503 error=500;
proxy_set_header X-Sem $dsem_name;
location /default {
    dsem default limit=2 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /local {
    dsem local limit=2 queue=10 timeout=20s;
    dsem_on_error local;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem pass limit=2 queue=10 timeout=20s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
location /reject {
    dsem reject limit=2 queue=10 timeout=20s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my @modes = qw(default local pass reject);

sub said { join ' ', @{ $node->logged($_[0]) }{qw(status dsem_status)} }

sub waiting {
    my ($name) = @_;
    return $t->state->waiting($name);
}

my (%runs, %waits);
for my $mode (@modes) {
    $runs{$mode} = [ map { $node->begin("/$mode?hang=1") } 1, 2 ];
    wait_for { $up->now($mode) == 2 } 15, 'two requests running';
    $waits{$mode} = [ map { $node->begin("/$mode?hang=1") } 1, 2 ];
    wait_for { waiting($mode) == 2 } 15, 'two requests queued';
}

$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';

# requests that waited

for (@{ $waits{reject} }) {
    is $_->wait->status, 500, 'reject: waiting request refused';
    is said($_), '500 ERROR', 'reject: status is ERROR';
}
eventually { $up->now('pass') == 4 } 'pass: waiting requests pass';
for my $mode (qw(default local)) {
    is $up->now($mode), 2, "$mode: waiting requests kept";
    ok !$_->done, "$mode: places kept" for @{ $waits{$mode} };
}

# later requests

is said($node->get('/reject')), '500 ERROR', 'reject: new request refused';
is said($node->get('/pass?t=1')), '200 DEGRADED', 'pass: new request passes';
for my $mode (qw(default local)) {
    my $asked = $node->begin("/$mode?t=1");
    $up->release_nonce($_->nonce) for @{ $runs{$mode} };
    is $_->wait->status, 200, "$mode: running requests served"
        for @{ $runs{$mode} };
    eventually { $up->now($mode) == 2 } "$mode: two requests running";
    $up->release_nonce($_->nonce) for @{ $waits{$mode} };
    is said($_->wait), '200 QUEUED', "$mode: waiting request served"
        for @{ $waits{$mode} };
    is said($asked->wait), '200 PASSED', "$mode: later request served";
    is $up->peak($mode), 2, "$mode: limit reached, not exceeded";
}
$up->release_all;
is said($_->wait), '200 DEGRADED', 'pass: status is DEGRADED'
    for @{ $waits{pass} };
is said($_->wait), '200 PASSED', 'running requests PASSED'
    for @{ $runs{pass} }, @{ $runs{reject} };

# Redis is available again

$proxy->refuse(0);
eventually { $node->grep_log(qr/available again/) } 'available again';
is said($node->get("/$_?t=1")), '200 PASSED',
    "$_: request served again" for @modes;
is scalar($node->grep_log(qr/\[error\].*dsem: redis/)), 1,
    'one error logged';

$t->done;
