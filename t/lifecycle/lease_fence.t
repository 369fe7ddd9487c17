#!/usr/bin/perl

# A worker is stopped for longer than its lease. Permits granted to it
# meanwhile were granted again to other workers: it admits no request on these
# permits. Where its own requests were running, the limit is exceeded: this
# overage is logged once, and nothing is granted until the sum is below the
# limit.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $LEASE = 5;

my $t = Dsem::Test->new(lease => $LEASE);
$t->redis;
my $up = $t->upstream;

# of the worker that is stopped
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
# a shorter timeout would drop the connections before the grants are read
dsem_redis_timeout 1m;
dsem_lease 5s;
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Sem $dsem_name;
    proxy_set_header X-Node %%NODE%%;
    location /granted {
        dsem granted limit=2 queue=10 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /running {
        dsem running limit=2 queue=10 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF
my $stands = $clock->node('n1', $conf);
my $goes = $t->node('n2', $conf);

sub of {
    my ($name, $field) = @_;
    return $t->state->figure($name, $field);
}

sub from {
    my ($node, $name) = @_;
    return scalar grep { $_->{node} eq $node && $_->{sem} eq $name } $up->log;
}

sub sessions { $t->state->session_count }

# The lease of the stopped worker passes, in Redis and for the worker.
sub expire {
    $t->state->lapse(grep { /^n1:/ } $t->state->sessions);
    $clock->step($LEASE + 1);
}

# granted while the worker is stopped, and expired

my @holds = map { $goes->begin('/granted?hang=1') } 1, 2;
eventually { $up->now == 2 } 'all permits on other node';
my @waits = map { $stands->begin('/granted?t=1') } 1, 2;
eventually { of('granted', 'waiting') == 2 } 'two requests queued';

$stands->freeze;
$up->release_all;
$_->wait for @holds;
eventually { of('granted', 'held') == 2 && of('granted', 'waiting') == 0 }
    'permits granted to stopped worker';
expire();
@holds = map { $goes->begin('/granted?hang=1') } 1, 2;
eventually { $up->now == 2 } 'permits granted to other node';
is sessions(), 1, 'session of stopped worker expired';

$stands->thaw;
eventually { sessions() == 2 } 'stopped worker resumed';
eventually { of('granted', 'waiting') == 2 } 'requests queued again';
is from('n1', 'granted'), 0, 'no request admitted on expired grants';
is $up->peak('granted'), 2, 'limit reached, never exceeded';
$up->release_all;
is $_->wait->status, 200, 'queued requests served' for @holds, @waits;
is $up->peak('granted'), 2, 'limit never exceeded';
is scalar(map { $_->grep_log(qr/overage/) } $stands, $goes), 0, 'no overage';

# running while the worker is stopped

my @own = map { $stands->begin('/running?hang=1') } 1, 2;
eventually { $up->now == 2 } 'all permits at stopped worker';
$stands->freeze;
expire();
my @more = map { $goes->begin('/running?hang=1') } 1, 2;
eventually { $up->now == 4 } 'permits granted to other node';
$stands->thaw;
eventually { of('running', 'held') == 4 } 'running requests declared';
eventually { $stands->grep_log(qr/\[warn\].*overage of 2 .*"running"/) }
    'overage logged';

my @next = map { $_->begin('/running?hang=1') } $stands, $goes;
eventually { of('running', 'waiting') == 2 } 'two requests queued';
for my $request ($own[0], $more[0]) {
    $up->release_nonce($request->nonce);
    is $request->wait->status, 200, 'one request ended';
    my $held = $up->now;
    eventually { of('running', 'held') == $held } 'permit returned';
    is of('running', 'waiting'), 2, 'no grant above the limit';
}
$up->release_nonce($own[1]->nonce);
is $own[1]->wait->status, 200, 'second request ended';
eventually { of('running', 'waiting') == 1 && $up->now == 2 }
    'one grant below the limit';
$up->release_all;
wait_for { $up->now == 1 } 15, 'last request served';
$up->release_all;
is $_->wait->status, 200, 'queued requests served' for $more[1], @next;
is $up->peak('running'), 4, 'limit not exceeded further';
is scalar(map { $_->grep_log(qr/overage/) } $stands, $goes), 1,
    'overage logged once';

$t->done;
