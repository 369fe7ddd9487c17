#!/usr/bin/perl

# The queue of one semaphore is deleted while requests wait in it. The missing
# tickets are not taken for grants: all workers declare their tickets, which
# are served in the old order.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $WAITING = 8;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my ($one, $two) = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_on_error reject;
location /waits {
    dsem api limit=1 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem_reuse off;
    dsem other limit=10;
    empty_gif;
}
EOF_CONF

sub of { return $t->state->figure('api', $_[0]) }
sub in_queue { return scalar(my @all = $t->state->queue('api')) }

# without load

my $long = $one->begin('/waits?hang=1', 'X-Nonce' => 'first');
wait_for { $up->now == 1 } 15, 'long request running';
my @line;
for (1 .. $WAITING) {
    push @line, ($one, $two)[ $_ % 3 % 2 ]->begin('/waits?t=5',
        'X-Nonce' => "line $_");
    wait_for { of('waiting') == @line } 15, "place $_";
}

$t->state->delete_queue('api');
eventually { in_queue() == $WAITING } 'all places declared';
# until then a worker passes its permits on to its own requests
eventually { !$redis->recovering } 'recovery over';
# the workers know it from their next beats
$redis->all_beat(2);
is of('held'), 1, 'one permit out';
is $up->started, 1, 'no waiting request at backend';
wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
# a worker serves its own next request while a reply is late: none ever is,
# when those are read that were awaited
$clock->stop;
is $_->get('/other')->status, 200, 'no reply awaited' for $one, $two;
$up->release_all;
is $_->wait->status, 200, 'request served' for $long, @line;
$clock->go;
is_deeply [ $up->order ], [ 'first', map { "line $_" } 1 .. $WAITING ],
    'old order kept';
is $up->peak, 1, 'one at a time';

# repeatedly under load

$up->reset;
my $times = $ENV{DSEM_LONG} ? 30 : 3;
my $load = $t->load_start(clients => 10, seconds => 3600,
    urls => [ map { $_->url('/waits') } $one, $two ]);
my $deleted = 0;
while ($deleted < $times) {
    wait_for { of('waiting') > 4 } 15, 'some waiting';
    my $before = $up->served;
    $deleted += $t->state->delete_queue('api');
    wait_for { $up->served > $before + 10 } 15, 'service';
}
my $result = $load->stop->wait;
cmp_ok $deleted, '>', 1, 'keys deleted under load';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'every request served'
    or diag explain $result->{statuses};
is $up->peak, 1, 'one at a time';
cmp_ok $up->served, '>', 20, 'service resumes';
note "$deleted times, ", $up->served, ' served';

$t->done;
