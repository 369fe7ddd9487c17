#!/usr/bin/perl

# "Prefer: wait=2" is the time for all permits of a program: it has waited for
# the first, and is refused before a request that asks later for the second and
# waits for 1.5 s. With "wait=0" it does not wait for the end of a recovery.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
location /both {
    dsem one limit=1 queue=9 timeout=60s;
    dsem two limit=1 queue=9 timeout=60s;
    dsem_hold;
}
location /one {
    dsem one limit=1 queue=9 timeout=60s;
    dsem_hold;
}
location /two {
    dsem two limit=1 queue=9 timeout=1500ms;
    dsem_hold;
}
EOF_CONF
my ($node, $missing) = map { $t->node($_, $conf) } qw(a b);
wait_for { $t->state->session_count == 2 } 15, 'two sessions';
# each has seen the other
$redis->all_beat(2);

my $one = $node->hold('/one');
my $two = $node->hold('/two');
my $both = $node->begin('/both', Prefer => 'wait=2');
my $began = now;
wait_for { $t->state->waiting('one') == 1 } 15, 'it waits for the first';
wait_for { now > $began + 1 } 15, 'half of its time';
$one->close;
wait_for { $t->state->waiting('two') == 1 } 15, 'it waits for the second';
my $later = $node->begin('/two');
is $_->wait->status, 503, 'refused' for $both, $later;
$node->logged($_) for $both, $later;
my @order = map { $_->{http_x_nonce} } $node->access_log;
is_deeply [ @order[ -2, -1 ] ], [ $both->nonce, $later->nonce ],
    'in this order';
$two->close;

$missing->kill;
$redis->empty;
wait_for { eval { $redis->recovering } && $t->state->session_count == 1 } 15,
    'the recovery';
my $now = $node->get('/one', Prefer => 'wait=0');
is $now->status . ' ' . $now->header('Dsem-Status'), '503 ERROR',
    'no answer of Redis';
ok $redis->recovering, 'before the end of the recovery';

$t->done;
