#!/usr/bin/perl

# A client is gone without a word, as when a cable is pulled: nothing that nginx
# sends is acknowledged any more. Its permit goes back once the next line has
# not been within "send_timeout".

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
send_timeout 1s;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=500ms;
}
location /patient {
    dsem patient limit=1;
    dsem_hold interval=500ms;
}
EOF_CONF

my $alive = $node->hold('/patient');
my $holder = $node->hold('/jobs');
my $next = $node->begin('/jobs');
eventually { $t->state->waiting('jobs') == 1 } 'the next one waits';

my $pulled = now;
$holder->pull;
eventually { !$next->done && $t->state->waiting('jobs') == 0 }
    'the next one has it';
cmp_ok took($pulled), '<', 3, 'interval and send_timeout, and little more';
cmp_ok now - $pulled, '>', 0.9, 'not before send_timeout';
like $alive->read_until(qr/(1\r\n\n\r\n){3}/), qr/\n/, 'others stay';
$_->close for $next, $alive, $holder;

$t->done;
