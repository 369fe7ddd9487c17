#!/usr/bin/perl

# "timeout" from a header: a request with a short deadline leaves the queue
# after it, while others before and behind it wait, and keeps its place till
# then. An empty value is the default. The clock of the worker stands but for the
# steps of the test.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('n1', <<'EOF_CONF');
worker_processes 1;
dsem_lease 10m;
add_header X-Dsem "$dsem_status $dsem_queue_position" always;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=1 queue=10 timeout=$http_x_deadline;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /turn { return 204; }
}
EOF_CONF

wait_for { $t->state->subscribed == 1 } 15, 'the subscription';
$clock->stop;

my $holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my @long = (ask('5m'), ask('300000ms'));
my $short = ask('200ms');
push @long, ask('5m');
passes(0.199);
ok !$short->done, 'not before its deadline';
passes(0.061);
is $short->wait->status, 503, 'refused 260 ms later at most';
is $short->header('X-Dsem'), 'TIMEOUT 3', 'TIMEOUT from its place';
is scalar(grep { $_->done } @long), 0, 'others wait on';
eventually { $t->state->waiting('api') == 3 } 'its place is free';

# a deadline that has not come yet: the place in the queue is kept

my $patient = ask('4m');
my @behind = (ask('5m'), ask('5m'));
my @order = map { $_->nonce } @long, $patient, @behind;
for my $i (0 .. $#order) {
    my $started = $up->started;
    $up->release(1);
    wait_for { $up->started > $started } 15, 'the next request';
}
$up->release_all;
is_deeply [($up->order)[1 .. @order]], \@order, 'served in order of arrival';
is $_->wait->status, 200, 'served' for $holder, @long, $patient, @behind;
is $patient->header('X-Dsem'), 'QUEUED 4', 'queued behind the others';
is $up->peak, 1, 'limit reached, never exceeded';

# empty: 5 s

$holder = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'the holder';
my $default = ask('');
passes(4.99);
ok !$default->done, 'not before 5 s';
passes(0.02);
is $default->wait->header('X-Dsem'), 'TIMEOUT 1', 'empty value times out';
$up->release_all;
$holder->wait;

$clock->go;
$t->done;

# The first answer comes before timers that have ended, the second after them.
sub passes {
    my ($seconds) = @_;
    $clock->step($seconds);
    is $node->get('/turn')->status, 204, 'a turn of the worker' for 1, 2;
}

# Into the queue, one after the other.
sub ask {
    my ($deadline) = @_;
    my $waiting = $t->state->waiting('api');
    my $request = $node->begin('/?hang=1', 'X-Deadline' => $deadline);
    wait_for { $t->state->waiting('api') > $waiting } 15, 'a place';
    # its reply is on its way, too
    $redis->written;
    return $request;
}
