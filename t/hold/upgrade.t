#!/usr/bin/perl

# The binary is upgraded while programs hold permits: the old master stays with
# the workers that have holders, their permits count beside those of the new
# workers, and it ends with the last of them.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=20 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my @holders = map { $node->hold('/jobs') } 1 .. 15;
my $old = $node->pid;
$node->begin_upgrade;
isnt $node->pid, $old, 'a new master';
wait_for { !$node->workers($old) } 15, 'the old workers to drain';

push @holders, map { $node->hold('/jobs') } 1 .. 5;
my $next = $node->ask('/jobs');
eventually { $t->state->waiting('jobs') == 1 } 'no more than 20';

# lines are still sent, and leases of both generations renewed

$_->read(0) for @holders;
$redis->beats(8, 'two heartbeats of each worker');
$_->read_until(qr/\n/) for @holders;
is scalar(grep { $_->eof } @holders), 0, 'none has ended';
is $t->state->held('jobs'), 20, 'all are counted';
ok kill(0 => $old), 'the old master stays';

$holders[0]->close;
like $next->read_until(qr/granted\n/), qr/granted/,
    'an old holder ends: a new one is granted';
$_->close for @holders[0 .. 14];
$node->end_upgrade;
is $t->state->held('jobs'), 6, 'the old master has ended, new holders stay';

$_->close for @holders, $next;
$t->done;
