#!/usr/bin/perl

# Redis is emptied while requests wait on two nodes. Each worker declares its
# tickets, and the requests are served in order of arrival.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $WAITING = 8;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my ($one, $two) = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_on_error reject;
location /waits {
    dsem api limit=1 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem_reuse off;
    dsem other limit=10;
    empty_gif;
}
EOF_CONF

sub generation { return $t->state->shard('gen') // 0 }
sub waiting { return $t->state->waiting('api') }

sub in_order {
    my ($how, $lose) = @_;
    $up->reset;
    my $long = $one->begin('/waits?hang=1', 'X-Nonce' => 'first');
    wait_for { $up->now == 1 } 15, 'long request running';
    my @line;
    for (1 .. $WAITING) {
        push @line, ($one, $two)[ $_ % 3 % 2 ]->begin('/waits?t=5',
            'X-Nonce' => "line $_");
        wait_for { waiting() == @line } 15, "place $_";
    }

    my $generation = generation();
    $lose->();
    wait_for { generation() && generation() != $generation } 15, 'the loss';
    eventually { waiting() == $WAITING } "$how: tickets declared";
    # until then a worker passes its permits on to its own requests
    wait_for { !$redis->recovering } 15, 'the recovery';
    # the workers know it from the reply to their next beats
    $redis->all_beat(2);
    wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
    # a worker serves its own next request while a reply is late: none ever is,
    # when those are read that were awaited
    $clock->stop;
    is $_->get('/other')->status, 200, "$how: no reply awaited" for $one, $two;
    $up->release_all;
    is $_->wait->status, 200, "$how: waited and served" for $long, @line;
    $clock->go;
    is_deeply [ $up->order ], [ 'first', map { "line $_" } 1 .. $WAITING ],
        "$how: old order kept";
    is $up->peak, 1, "$how: one at a time";
}

in_order('open', sub { $redis->cmd('FLUSHALL') });
in_order('cut', sub {
    $redis->cmd('FLUSHALL');
    $redis->client_kill;
});

$t->done;
