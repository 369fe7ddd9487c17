#!/usr/bin/perl

# Requests wait while all permits are in use, and Redis loses everything. What
# they time out with is not what the old Redis had in use.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 3);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $killed) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 3s;
location / {
    dsem api limit=5 queue=10 timeout=2s;
    proxy_pass http://%%UPSTREAM%%;
}
location /soon {
    dsem api limit=5 queue=10 timeout=1s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub state { return $t->state->figure('api', $_[0]) }

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

# a session stays away, so that Redis recovers for a lease

my @waiting = map { $node->begin('/') } 1 .. 3;
wait_for { state('waiting') == 3 } 15, 'three queued';
$killed->kill;
$redis->empty;
for (@waiting) {
    is $_->wait->status, 503, 'timed out while redis recovers';
    my $line = $node->logged($_);
    is $line->{dsem_status}, 'TIMEOUT', 'status is TIMEOUT';
    is $line->{dsem_in_use}, '', 'no number of the lost redis';
    is $line->{dsem_limit}, 5, 'limit as configured';
}
is scalar($node->grep_log(qr/5 of 5/)), 1, 'no number in the log';
is scalar($node->grep_log(
    qr/dsem timeout: .*, connection to redis lost meanwhile/)), 3,
    'the log says why';

$up->release_all;
is $_->wait->status, 200, 'running requests served' for @running;
eventually { $node->get('/?t=1')->status == 200 } 'service again';
is $up->peak, 5, 'limit reached, never exceeded';

$t->done;
