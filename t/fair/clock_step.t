#!/usr/bin/perl

# The clock of the Redis host is set by an hour, either way, while requests of
# two keys wait, and while nothing does. They keep their places and turns, one
# of another key that comes afterwards has its own, and no request is dropped.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 3);
my $clock = Dsem::Clock->new($t);
my $redis = $clock->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 3s;
location / {
    dsem api limit=1 queue=50 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# A worker that this machine lets wait for two heartbeats is passed over: then
# the step is made again.
for my $step (3600, -3600, -3600) {
    my $try = 1;
    $try++ until in_order($step) || $try == 6;
    cmp_ok $try, '<', 6, "$step s: order kept";
}

# Whether requests were served in their order; the rest must hold anyway.
sub in_order {
    my ($step) = @_;
    $up->reset;
    my $holder = $fleet[0]->begin("/?k=holder&hang=1&n=$step");
    wait_for { $up->now == 1 } 15, 'the holder';

    my (@all, %is);
    my $ask = sub {
        my ($k) = @_;
        my $request = $fleet[@all % 2]->begin("/?k=$k&t=20");
        push @all, $request;
        $is{ $request->nonce } = $k;
        wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
    };
    $ask->('heavy') for 1 .. 6;
    my $places = $t->state->places('api');
    $clock->step($step);
    # until each worker has told that it is alive
    $redis->all_beat(2);
    is_deeply $t->state->places('api'), $places, "$step s: places kept";
    $ask->('light') for 1 .. 2;
    ok !$_->done, "$step s: request waits" for @all;

    $up->release_all;
    is $_->wait->status, 200, "$step s: request served" for $holder, @all;
    is $up->peak, 1, "$step s: limit reached, never exceeded";
    my @order = map { $is{$_} // () } $up->order;
    my @heavy = grep { ($is{$_} // '') eq 'heavy' } $up->order;
    note "@order";
    # the second of the light key when its first one has been paid for
    return "@heavy" eq join(' ', map { $_->nonce } @all[0 .. 5])
        && grep { $_ eq 'light' } @order[0 .. 1];
}

is scalar(map { $_->grep_log(qr/lease of|resynchronizing/) } @fleet), 0,
    'no lease expired';

$t->done;
