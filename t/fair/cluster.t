#!/usr/bin/perl

# A fair queue in a Redis Cluster: its tags are in the shard of the semaphore.
# Keys take turns, and a full queue drops the last of the longest backlog.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);
my @fleet = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_lease 10m;
location / {
    dsem $arg_s limit=1 queue=6 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# names in different shards

for my $name (qw(api reports)) {
    my $state = Dsem::State->new($cluster->at($name));
    is $_->get("/?s=$name&k=first&t=1")->status, 200, 'a first request'
        for @fleet;
    wait_for { $state->subscribed == 2 } 15, 'both to be told of grants';
    wait_for { !$state->held($name) } 15, 'no permit out';
    # a worker serves its own next request while a reply is late: none ever is
    $clock->stop;
    $up->reset;
    my $holder = $fleet[0]->begin("/?s=$name&k=holder&hang=1");
    wait_for { $up->now == 1 } 15, 'the holder';
    my (@all, %is);
    for my $k (('heavy') x 6, ('light') x 2) {
        my $request = $fleet[@all % 2]->begin("/?s=$name&k=$k&t=1");
        push @all, $request;
        $is{ $request->nonce } = $k;
        my $waiting = @all < 6 ? @all : 6;
        wait_for { eval { $state->waiting($name) == $waiting } } 15, 'queue';
    }
    eventually { 2 == grep { $_->done } @all } 'two dropped';
    is_deeply [map { $_->done ? $_->status : () } @all[4, 5]], [503, 503],
        'the last of the backlog';
    $up->release_all;
    is $_->wait->status, 200, 'others served' for $holder, @all[0 .. 3, 6, 7];
    my @order = map { $is{$_} // () } $up->order;
    is scalar(grep { $_ eq 'light' } @order[0 .. 4]), 2, 'keys take turns'
        or note "@order";
    is $up->peak, 1, 'limit reached, never exceeded';
    $clock->go;
}

$t->done;
