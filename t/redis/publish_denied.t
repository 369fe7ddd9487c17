#!/usr/bin/perl

# The user may not PUBLISH: the log names the permission once, as an error, and
# requests are served. With the permission back nothing more is logged.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
location / {
    dsem api limit=1 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub clock { return $t->state->shard('clock') // 0 }

# heartbeats move the clock, by a quarter of the lease at most
sub heartbeats {
    my $clock = clock();
    wait_for { clock() > $clock + 300 } 30, 'two heartbeats';
}

is $node->get('/?t=1')->status, 200, 'request served';
is scalar($node->grep_log(qr/rejects commands/)), 0, 'nothing logged';

for my $round (1, 2) {
    $redis->cmd(qw(ACL SETUSER), $redis->user, '-publish');
    eventually { $node->grep_log(
        qr/\[error\].*dsem: .*\(PUBLISH to "dsem:\{0\}:c:a:0:[0-9a-f]{16}"\)/)
        == $round } 'no permission: logged as an error';
    heartbeats();
    is scalar($node->grep_log(qr/rejects commands/)), $round, 'logged once';
    is $node->get('/?t=1')->status, 200, 'request served without messages';

    $redis->cmd(qw(ACL SETUSER), $redis->user, '+publish');
    heartbeats();
    is scalar($node->grep_log(qr/rejects commands/)), $round,
        'permission back: nothing logged';
}
is scalar($node->grep_log(qr/unavailable \(/)), 0, 'redis stays available';

$t->done;
