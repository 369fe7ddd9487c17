#!/usr/bin/perl

# The clock of the Redis host steps: nothing is granted for a quarter of a
# lease, but no session is lost, and all that Redis counts stays. A request of
# "dsem_on_error pass" that waits passes now, and leaves its place in the queue.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 4);
my $clock = Dsem::Clock->new($t);
my $redis = $clock->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 4s;
dsem_on_error pass;
location / {
    dsem api limit=1 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my ($a, $b) = map { $t->node($_, $conf) } qw(a b);
wait_for { $t->state->session_count == 2 } 15, 'two sessions';
my $holder = $b->begin('/?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now == 1 } 15, 'the holder';
my @passes = $a->begin('/?hang=1', 'X-Nonce' => 'waits');
wait_for { $t->state->waiting('api') == 1 } 15, 'a request waits';

$clock->step(60);
# a worker learns of it from a reply
push @passes, $a->begin('/?hang=1', 'X-Nonce' => 'comes');
eventually { $up->now == 3 } 'both pass' or die;
$up->release_nonce($_) for qw(waits comes);
is $_->wait->status, 200, 'served' for @passes;
wait_for { !$redis->recovering } 15, 'the end of the recovery';
$up->release_all;
is $holder->wait->status, 200, 'served';

eventually { $t->state->counts('api') eq '0 0' } 'no permit is lost';
is $b->get('/')->status, 200, 'the next one is served';
is scalar(map { $_->grep_log(qr/resynchroniz|counts differ/) } $a, $b), 0,
    'all counts agree';

$t->done;
