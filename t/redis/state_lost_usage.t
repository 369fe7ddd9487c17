#!/usr/bin/perl

# Requests wait while all permits are in use, and Redis loses everything. What
# they time out with is not what the old Redis had in use.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# s; the fence is at 45
my ($LEASE, $TIMEOUT) = (60, 20);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
location / {
    dsem api limit=5 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /soon {
    dsem api limit=5 queue=10 timeout=1s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $node = $clock->node('stays', $conf);
my $away = $t->node('away', $conf);

sub state { return $t->state->figure('api', $_[0]) // 0 }

wait_for { $t->state->session_count == 2 } 15, 'two sessions';
# each has seen the other
$redis->all_beat(2);
my @running = map { $node->begin('/?hang=1') } 1 .. 5;
wait_for { $up->now == 5 } 15, 'all permits out';

# while Redis has its state

my $waiting = $node->begin('/soon');
is $waiting->wait->status, 503, 'timed out';
is $node->logged($waiting)->{dsem_in_use}, 5, 'in use when queued';
eventually { $node->grep_log(qr/dsem timeout: .* 5 of 5 in use when queued/)
    == 1 } 'the same in the log';

# a session stays away, so that Redis recovers

my @waiting = map { $node->begin('/') } 1 .. 3;
wait_for { state('waiting') == 3 } 15, 'three queued';
$away->freeze;
$redis->empty;
wait_for { state('waiting') == 3 } 15, 'declared';
$clock->step($TIMEOUT);
for (@waiting) {
    is $_->wait->status, 503, 'timed out while redis recovers';
    my $line = $node->logged($_);
    is $line->{dsem_status}, 'TIMEOUT', 'status is TIMEOUT';
    is $line->{dsem_in_use}, '', 'no number of the lost redis';
    is $line->{dsem_limit}, 5, 'limit as configured';
}
ok $redis->recovering, 'all of that time';
is scalar($node->grep_log(qr/5 of 5/)), 1, 'no number in the log';
is scalar($node->grep_log(
    qr/dsem timeout: .*, connection to redis lost meanwhile/)), 3,
    'the log says why';

$up->release_all;
is $_->wait->status, 200, 'running requests served' for @running;
$away->thaw;
eventually { $node->get('/?t=1')->status == 200 } 'service again';
is $up->peak, 5, 'limit reached, never exceeded';

$t->done;
