#!/usr/bin/perl

# A request of a new key costs what requests of the semaphore take in the mean.
# A worker remembers how long requests of a key take, in the mean, while a
# thousand keys that are used once pass by. A key whose first request was an
# exception does not pay for it many times.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
keepalive_requests 10000;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=2 queue=50 timeout=20s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /mean {
        dsem mean limit=2 queue=50 timeout=20s fair=$arg_k;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# The order of requests of keys, from a full semaphore and an empty queue.
sub order {
    my ($path, $name, @keys) = @_;
    my $n = 0;
    my $holder = $node->begin("$path?k=holder&hang=1&n=2");
    wait_for { $up->now == 2 } 15, 'both permits';
    my (@all, %is);
    for my $k (@keys) {
        my $request = $node->begin("$path?k=$k&t=2");
        push @all, $request;
        $is{ $request->nonce } = $k;
        wait_for { $t->state->waiting($name) == @all } 15, 'in the queue';
    }
    $up->release_nonce($holder->nonce);
    is $_->wait->status, 200, "$name: request served" for $holder, @all;
    return map { $is{$_} // () } $up->order;
}

# the worker's account lives as long as these
my @forever = $node->begin('/mean?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'a permit in use';

# known and new alike
is $node->get('/mean?k=known&t=200')->status, 200, 'known key' for 1, 2;
my @order = order('/mean', 'mean', ('known') x 3, ('new') x 3);
is scalar(grep { $_ eq 'new' } @order[0 .. 3]), 2,
    'new key costs the mean' or note "@order";

$up->release_all;
$_->wait for @forever;
@forever = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'a permit in use';

sub flood {
    my ($name, $n) = @_;
    my $load = $t->load(clients => 1, requests => $n, keepalive => 1,
        request => sub { $node->url("/?k=$name-$_[0]") });
    is_deeply [ keys %{ $load->{statuses} } ], [200], 'many keys served';
}

# the keys before are forgotten, these are not
flood('first', 1100);
is $node->get("/?k=slow&t=$_")->status, 200, "slow key: $_ ms"
    for 400, 400, 400, 1;
is $node->get('/?k=quick&t=10')->status, 200, 'quick key';
flood('then', 1100);
@order = order('/', 'api', ('slow') x 3, ('quick') x 2);
is_deeply [ @order[-2, -1] ], ['slow', 'slow'],
    'slow key goes behind the quick one' or note "@order";

# a cache was cold, say: after three more requests of 1 ms the mean is 80 to 100
# ms, and not 290
is $node->get("/?k=cold&t=$_")->status, 200, "cold key: $_ ms"
    for 400, 1, 1, 1;
is $node->get('/?k=quick&t=80')->status, 200, 'quick key' for 1 .. 3;
@order = order('/', 'api', ('cold') x 2, ('quick') x 8);
is_deeply [ sort @order[-3 .. -1] ], [('quick') x 3],
    'the first request is one of four' or note "@order";

$up->release_all;
$_->wait for @forever;
is $up->peak, 2, 'limit reached, never exceeded';

$t->done;
