#!/usr/bin/perl

# The text of an error that a peer sends unasked is logged as the reason of the
# lost connection. No line feed in it begins a line of its own.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
dsem_lease 1s;
location /one {
    dsem one limit=1 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/one?t=1')->status, 200, 'redis available';

# both connections are idle between two heartbeats, and have been good for one
for my $round (1 .. 3) {
    my $clock = $t->state->shard('clock');
    wait_for { $t->state->shard('clock') > $clock + 300 } 15, 'a heartbeat';
    my $lost = () = $node->grep_log(qr/lost \(|unavailable \(/);
    $proxy->inject("-EVIL\n2026/01/01 00:00:00 [error] 1#1: forged \x1b[31m\r\n");
    eventually { scalar(() = $node->grep_log(qr/lost \(|unavailable \(/))
        > $lost } 'connection lost';
    eventually { $node->get('/one?t=1')->status == 200 } 'service again';
}

my $log = $node->error_log;
# hiredis 1.x refuses the text itself
like $log, qr/lost \((?:EVIL\?2026|Bad simple string value)/, 'reason logged';
unlike $log, qr/^2026\/01\/01/m, 'no line of its own';
unlike $log, qr/\x1b/, 'no control character';

$t->done;
