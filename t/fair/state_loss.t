#!/usr/bin/perl

# Redis loses everything while requests of two keys wait: what the workers
# declare is enough to go on. Requests keep their order, and one of another
# key that comes afterwards has its turn.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my @fleet = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=1 queue=50 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem_reuse off;
    dsem other limit=10;
    empty_gif;
}
EOF_CONF

my $holder = $fleet[0]->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my (@all, %is);
sub ask {
    my ($k) = @_;
    my $request = $fleet[@all % 2]->begin("/?k=$k&t=2");
    push @all, $request;
    $is{ $request->nonce } = $k;
    wait_for { $t->state->waiting('api') == @all } 15, 'in the queue';
}

ask('heavy') for 1 .. 8;

$redis->empty;
eventually { $t->state->waiting('api') == 8 } 'all declared again';
wait_for { !$t->state->recovering } 15, 'recovery';
ask('light') for 1 .. 2;
ok !$_->done, 'request waits' for @all;

# a worker serves its own next request while a reply is late: none ever is,
# when those are read that were awaited
wait_for { $t->state->subscribed == 2 } 15, 'all to be told of grants';
$clock->stop;
is $_->get('/other')->status, 200, 'no reply awaited' for @fleet;
$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @all;
$clock->go;

my @order = map { $is{$_} // () } $up->order;
cmp_ok scalar(grep { $_ eq 'light' } @order[0 .. 5]), '==', 2,
    'later requests in their turns' or note "@order";
my @heavy = grep { $is{$_} && $is{$_} eq 'heavy' } $up->order;
is_deeply \@heavy, [map { $_->nonce } @all[0 .. 7]], 'order inside the key';
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
