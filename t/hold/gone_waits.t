#!/usr/bin/perl

# Programs that wait are gone without a word, as when laptops sleep: they leave
# the queue, and the permit does not go from one of them to the next.

use lib 't/lib';
use Socket qw(SOL_SOCKET);

use Dsem::Test;

# linux/filter.h: one instruction, BPF_RET|BPF_K with 0: nothing is accepted
my $SO_ATTACH_FILTER = 26;
my $DROP = pack 'SCCL', 6, 0, 0, 0;

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

my $program = pack 'S x![P] P', length($DROP) / 8, $DROP;
for (@gone) {
    setsockopt($_->sock, SOL_SOCKET, $SO_ATTACH_FILTER, $program)
        or die "setsockopt: $!";
}
eventually { $t->state->waiting('jobs') == 1 } 'three have left the queue';
ok !$next->done, 'the fourth one waits on';
$_->close for $holder, $next, @gone;

$t->done;
