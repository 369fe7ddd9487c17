#!/usr/bin/perl

# "Prefer: wait=0" of a program that does not want to wait for its permit, as
# RFC 7240 writes it: in a list, in any case, in quotes, with blanks. Other
# preferences that have it in their names or values leave the time as it is. A
# request of another method will hold nothing, and does not wait either.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $node = $t->node('a', <<'EOF_CONF');
location /jobs {
    dsem jobs limit=1 queue=3 timeout=600s;
    dsem_hold;
}
EOF_CONF

my $holder = $node->hold('/jobs');

for my $prefer ('wait=0', 'WAIT=0', 'wait="0"', 'wait = 0', "wait\t=\t\"0\"",
    'respond-async,wait=0', 'respond-async , , wait=0', 'wait=0; strict',
    'x="a, \\", b", wait=0', 'waiting, wait=0', 'wait, wait=0',
    'nowait=9, wait=0', '=, wait=0')
{
    is $node->get('/jobs', Prefer => $prefer)->status, 503,
        "$prefer: does not wait";
}

for my $prefer ('nowait=0', 'x-wait=0', 'await=0', 'x="wait=0"',
    'x="a, wait=0"', 'x="\\", wait=0"', 'respond-async; wait=0', 'wait',
    'wait=', 'wait="', 'wait0', 'wait=x', 'x="\\')
{
    my $waits = $node->ask('/jobs', Prefer => $prefer);
    eventually { $t->state->waiting('jobs') == 1 } "$prefer: waits";
    $waits->close;
    wait_for { $t->state->waiting('jobs') == 0 } 15, 'it has left';
}

for my $method (qw(HEAD PUT)) {
    my $request = $node->begin('/jobs', -method => $method);
    is $request->wait->status, 503, "$method: does not wait";
}

$holder->close;

$t->done;
