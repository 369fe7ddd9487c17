#!/usr/bin/perl

# Programs that wait are gone without a word, as when laptops sleep: they leave
# the queue, and the permit does not go from one of them to the next.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('a', <<'EOF_CONF');
send_timeout 1s;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=3s;
}
EOF_CONF

my $holder = $node->hold('/jobs');
my @gone = map { $node->ask('/jobs') } 1 .. 3;
my $next = $node->begin('/jobs');
eventually { $t->state->waiting('jobs') == 4 } 'four wait';

$_->pull for @gone;
eventually { $t->state->waiting('jobs') == 1 } 'three have left the queue';
ok !$next->done, 'the fourth one waits on';
$_->close for $holder, $next, @gone;

$t->done;
