#!/usr/bin/perl

# Nobody waits longer than the timeout, or much less: refused within 100 ms
# of it, and the place in the queue is free. Others go on waiting.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(max);
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    add_header X-Dsem $dsem_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /impatient {
            dsem one limit=1 queue=10 timeout=1s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /patient {
            dsem one limit=1 queue=10 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /default { # 5 s
            dsem one limit=1 queue=10;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $holder = $node->begin('/patient?hang=1');
eventually { $up->now == 1 } 'limit reached';

my $patient = $node->begin('/patient', 'X-Nonce' => 'patient');
eventually { waiting() == 1 } 'one waits';

# a round in which the machine had nothing else to do
my ($told, $logged);
for (1 .. 5) {
    ($told, $logged) = in_vain();
    last if $told < 1.1 && $logged < 1.1;
}
cmp_ok($told, '<', 1.1, 'within 100 ms');
cmp_ok($logged, '<', 1.1, 'and logged as it was');
is($up->started, 1, 'backend saw nothing of it');

if ($ENV{DSEM_LONG}) {
    my $default = $node->get('/default');
    is($default->header('X-Dsem'), 'TIMEOUT', 'default timeout');
    cmp_ok(abs($default->latency - 5.05), '<', 0.06, 'is five seconds');
}

ok(!$patient->done, 'others go on waiting');
$up->release_all;
is($patient->wait->header('X-Dsem'), 'QUEUED', 'and are served');
is($holder->wait->status, 200, 'holder served');
is($up->peak, 1, 'one at a time');

done_testing();

# How long three waited at most, as they saw it and as the log has it.
sub in_vain {
    $node->clear_logs;
    my @impatient = map { $node->begin('/impatient') } 1 .. 3;
    eventually { waiting() == 4 } 'three more wait';
    my ($told, $logged) = (0, 0);
    for my $refused (@impatient) {
        is($refused->wait->status, 503, 'refused');
        is($refused->header('X-Dsem'), 'TIMEOUT', 'status told');
        cmp_ok($refused->latency, '>=', 0.995, 'not too early');
        my $line = $node->logged($refused);
        is($line->{dsem_status}, 'TIMEOUT', 'status logged');
        is($line->{dsem_name}, 'one', 'name logged');
        cmp_ok($line->{dsem_wait_time}, '>=', 1, 'wait logged');
        $told = max($told, $refused->latency);
        $logged = max($logged, $line->{dsem_wait_time});
    }
    eventually { waiting() == 1 } 'places free', 0.5;
    my @lines = $node->grep_log(qr/dsem timeout/);
    is(scalar @lines, 3, 'a log line each');
    like($lines[0], qr/\[error\].* dsem\ timeout:\ no\ permit\ of\ semaphore
        \ "one"\ within\ 1\d\d\d\ ms,\ 1\ of\ 1\ in\ use\ when\ queued
        ,\ client:/x, 'log line');
    return ($told, $logged);
}

sub waiting { $redis->cmd('HGET', 'dsem:{0}:s:one', 'waiting') // 0 }
