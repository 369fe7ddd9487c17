#!/usr/bin/perl

# One node is cut off from the master that the sentinels go on naming. Its own
# permits serve its requests until the fence, then it rejects; after its lease
# the other node has all permits. The limit is never exceeded, and the node is
# back soon after the partition.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 60);

my $t = Dsem::Test->new(lease => $LEASE);
my $set = $t->sentinel(servers => 2, sentinels => 0);
my $up = $t->upstream;
my $way = $t->proxy($set->master->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_redis_connect_timeout %%TIMEOUT%%;
dsem_redis_timeout %%TIMEOUT%%;
dsem_lease 60s;
dsem_on_error reject;
dsem_status 503 error=500;
location /waits {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# of the one that is cut off
my $clock = Dsem::Clock->new($t, monotonic => 1);
my %node = map {
    my ($on, $address, $timeout) = $_ eq 'cut'
        ? ($clock, $way->address, '500ms')
        : ($t, $set->master->address, '60s');
    $_ => $on->node($_, $conf, MASTER => $_, TIMEOUT => $timeout,
        SENTINELS => $set->watch($_, $address)->address);
} qw(cut whole);
my $state = Dsem::State->new($set->master);
wait_for { $state->session_count == 2 } 15, 'two sessions';

my @cut = map { accepted('/waits?hang=1', sub { $up->now == $_ }) } 1, 2;
my @whole = map { $node{whole}->begin('/waits?hang=1') } 1, 2;
wait_for { $up->now == $LIMIT } 15, 'all permits out';
my $waits = $node{whole}->begin('/waits?hang=1');
wait_for { $state->waiting('api') == 1 } 15, 'one request queued';

# the fence is three quarters of the lease after a heartbeat
$set->master->all_beat(2);
my $opened = $way->accepted;
$node{cut}->clear_logs;
$way->freeze;
my $frozen = now;
$clock->step($LEASE / 2);
eventually { $node{cut}->grep_log(qr/ unavailable \(/) } 'node cut off';
$up->release_nonce($cut[0]->nonce);
is $cut[0]->wait->status, 200, 'running request served';
is $node{cut}->get('/waits?t=1')->status, 200, 'own permit used again';
is $up->now, 3, 'freed permit not granted to the other node';
$up->release_nonce($cut[1]->nonce);
is $cut[1]->wait->status, 200, 'running request served';
is $node{cut}->get('/waits?t=1')->status, 200, 'own permits until the fence';
$clock->step($LEASE / 4);
is $node{cut}->get('/waits?t=1')->status, 500, 'rejects after the fence';
$state->lapse(grep { /^cut:/ } $state->sessions);
eventually { $up->now == 3 && $state->session_count == 1 }
    'permits granted after the lease';
push @whole, $waits, $node{whole}->begin('/waits?hang=1');
eventually { $up->now == $LIMIT } 'all permits for the other node';
is $node{cut}->get('/waits')->status, 500, 'still cut off';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
my $took = now - $frozen;
cmp_ok $way->accepted - $opened, '<=', 4 * $took + 8, 'few attempts';

$node{cut}->clear_logs;
$way->cut;
$way->thaw;
eventually { $state->session_count == 2 } 'node is back';
wait_for { $node{cut}->grep_log(qr/ available again /) } 15, 'its log line';
my ($queued, $served);
for (1 .. 20) {
    $queued = accepted('/waits?t=1', sub { $state->waiting('api') == 1 });
    $up->release_all;
    is $_->wait->status, 200, 'request served' for splice @whole;
    $served = $queued->wait->status;
    last if $served != 500;
    @whole = map { $node{whole}->begin('/waits?hang=1') } 1 .. $LIMIT;
    wait_for { $up->now == $LIMIT } 15, 'all permits out again';
}
is $served, 200, 'queued request served';
$up->release_all;
is $_->wait->status, 200, 'request served' for @whole;
is $up->peak, $LIMIT, 'limit held to the end';
is scalar($node{whole}->grep_log(qr/\[error\]/)), 0,
    'other node: no error logged';

$t->done;

# A request of the node with short timeouts, for which a stall is an outage.
sub accepted {
    my ($path, $condition) = @_;
    my $request;
    wait_for {
        $request = $node{cut}->begin($path)
            if !$request || $request->done && $request->status == 500;
        $condition->();
    } 30, 'Redis available for it';
    return $request;
}
