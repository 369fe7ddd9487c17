#!/usr/bin/perl

# queue=auto: as many requests may wait as will have a permit in time, by the
# time for which permits are held. At twice the load a longer queue lets half of
# the requests wait in vain.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF');
dsem_max_waiting 300;
add_header X-Estimate $dsem_wait_estimate always;
location /first {
    set $queue auto;
    dsem first limit=1 queue=$queue timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /learn {
    dsem a limit=1 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /auto {
    dsem a limit=1 queue=auto timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /short {
    dsem a limit=1 queue=auto timeout=1ms;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# unknown time: all may wait

my @first = map { $node->begin('/first?hang=1') } 1 .. 30;
eventually { waiting('first') == 29 } 'nothing is known yet: 29 wait';
wait_for { $up->release_all; !grep { !$_->done } @first };

# The permit is held for 400 ms or more: 50 times in 20 s, less two roots of it
# are 36; if the machine is slow, fewer.

$node->get('/learn?t=400') for 1 .. 4;
my $held = $node->begin('/learn?hang=1');
wait_for { $up->now == 1 };

my @waiting;
my $rejected;
for my $n (1 .. 40) {
    my $request = $node->begin('/learn?hang=1');
    wait_for { waiting('a') == $n };
    push @waiting, $request;
    # whether one of queue=auto would be the next
    $rejected = $node->begin('/auto');
    wait_for { $rejected->done || waiting('a') == $n + 1 };
    last if $rejected->done;
    $rejected->close;
    wait_for { waiting('a') == $n };
}
is $rejected->status, 503, 'rejected';
is $node->logged($rejected)->{dsem_status}, 'REJECTED', 'at once';
cmp_ok scalar(@waiting), '<=', 36, 'no more than drain in 20 s';
cmp_ok $rejected->header('X-Estimate'), '<', 20, 'it would have been in time';

# one may always wait

wait_for { $up->release_all; !grep { !$_->done } $held, @waiting };
$held = $node->begin('/learn?hang=1');
wait_for { $up->now == 1 };
# its timeout does not end before Redis has replied
$clock->stop;
my $short = $node->begin('/short');
wait_for { $short->done || waiting('a') == 1 };
$clock->go;
is $node->logged($short->wait)->{dsem_status}, 'TIMEOUT',
    'the queue has one place at least';
$up->release_all;
is $held->wait->status, 200, 'served';

done_testing();

sub waiting { return $t->state->waiting($_[0]) }
