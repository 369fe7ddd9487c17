#!/usr/bin/perl

# "Prefer: wait=1" of a program waits a second, also where "timeout" is less than
# two: it is refused before a request that came later and waits for 1.5 s.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
location /jobs {
    dsem jobs limit=1 queue=3 timeout=1999ms;
    dsem_hold;
}
location /later {
    dsem jobs limit=1 queue=3 timeout=1500ms;
    dsem_hold;
}
EOF_CONF

my $holder = $node->hold('/jobs');

my $first = $node->begin('/jobs', Prefer => 'wait=1');
eventually { $t->state->waiting('jobs') == 1 } 'it waits';
my $later = $node->begin('/later');

is $first->wait->status, 503, 'refused';
is $later->wait->status, 503, 'and so is the later one';
$node->logged($_) for $first, $later;
is_deeply [ map { $_->{http_x_nonce} } $node->access_log ],
    [ $first->nonce, $later->nonce ], 'in this order';

$holder->close;

$t->done;
