#!/usr/bin/perl

# An nginx cannot reach Redis for longer than its lease, while another one can.
# Its permits are given to the next program. The one that holds them is not
# told and goes on beside it, also with "dsem_on_error reject"; the log names it.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $way = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 2s;
dsem_on_error reject;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my $cut = $t->node('cut', $conf, REDIS => $way->address);
my $other = $t->node('other', $conf);
$t->expect_log(qr/redis unavailable|overage of 1 permits/);

my $holder = $cut->hold('/jobs');
my $next = $other->ask('/jobs');
wait_for { $t->state->waiting('jobs') == 1 } 15, 'the next one waits';

$way->refuse;
$way->cut;
like $next->read_until(qr/granted\n/), qr/granted\n/, 'the next one has it';
$holder->read(0);
ok !$holder->eof, 'and the first one, who is not told';

$way->refuse(0);
eventually { $cut->grep_log(qr/overage of 1 permits of "jobs"/) }
    'an overage is logged';
$holder->read(0);
ok !$holder->eof, 'the first one goes on';
$_->close for $holder, $next;

$t->done;
