#!/usr/bin/perl

# The user may register sessions, but not touch semaphores: every session is
# accepted, and lost with its first request. The log says so twice, not with
# every attempt, and that it is over when it is over.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $up = $t->upstream;
my $redis = $t->redis;

my $node = $t->node('single', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=1 queue=10;
    dsem_on_error reject;
    dsem_reuse off;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/')->status, 200, 'served';
$node->clear_logs;
$redis->cmd(qw(ACL SETUSER), $redis->user, 'resetkeys', '~*{0}',
    '~*{0}:sessions', '~*{0}:census');

# attempts, as Redis counts them
my $before = $redis->calls->{info} // 0;
eventually { $node->get('/'); ($redis->calls->{info} // 0) > $before + 30 }
    'sessions accepted again and again', 30;
my @errors = $node->grep_log(qr/\[error\].*dsem: redis/);
like $errors[0], qr/unavailable \(.*(?:NOPERM|No permissions|ACL)/i,
    'cause in the log';
cmp_ok scalar(@errors), '<=', 2, 'errors';
cmp_ok scalar($node->grep_log(qr/available again/)), '<=', 1, 'notices';

$node->clear_logs;
$redis->cmd(qw(ACL SETUSER), $redis->user, 'allkeys');
eventually { $node->get('/')->status == 200 } 'served again';
eventually { $node->grep_log(qr/available again/) == 1 } 'said when it lasts';
is scalar($node->grep_log(qr/\[error\].*dsem: redis/)), 0, 'no more errors';

$t->done;
