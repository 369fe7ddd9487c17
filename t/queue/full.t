#!/usr/bin/perl

# All permits are out and the queue is full: a request is rejected at once on
# any node, and the rejection is logged. No permits are kept: while they may
# be idle on a node, the queue may exceed its length.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
dsem_reuse off;
add_header X-Dsem $dsem_status always;
location /short_queue {
    dsem short limit=2 queue=2 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /no_queue {
    dsem none limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @served = map { $_->begin('/short_queue?hang=1') } $one, $two;
eventually { $up->now == 2 } 'limit reached';
my @queued = map { $_->begin('/short_queue?t=1') } $one, $two;
eventually { waiting('short') == 2 } 'queue full';

for my $node ($one, $two) {
    my $refused = $node->get('/short_queue');
    is($refused->status, 503, 'request rejected');
    is($refused->header('X-Dsem'), 'REJECTED', 'status in header');
    cmp_ok($refused->took, '<', 15, 'rejected at once');
    is_deeply([$node->grep_log(qr/\bdsem rejected\b/)],
        [$node->grep_log(qr/\[error\].* dsem\ rejected:\ semaphore\ "short"
            \ has\ 2\ of\ 2\ permits\ in\ use\ and\ its\ queue\ is\ full
            ,\ client:/x)], 'rejection logged');
    is(scalar $node->grep_log(qr/dsem rejected/), 1, 'logged once');
    is($node->logged($refused)->{dsem_status}, 'REJECTED',
        'status in access log');
}
is($up->started, 2, 'no rejected request at backend');
is(waiting('short'), 2, 'queue unchanged');

$up->release_all;
is($_->wait->status, 200, 'queued requests served') for @served, @queued;
is($_->header('X-Dsem'), 'QUEUED', 'status is QUEUED') for @queued;
is($one->get('/short_queue')->header('X-Dsem'), 'PASSED', 'permits returned');

# the default is no queue

my $only = $one->begin('/no_queue?hang=1');
wait_for { $up->now == 1 };
is($two->get('/no_queue')->header('X-Dsem'), 'REJECTED', 'queue=0 rejects');
$up->release_all;
is($only->wait->status, 200, 'holder served');

is($up->peak, 2, 'peak is the limit');

done_testing();

sub waiting { $t->state->waiting($_[0]) }
