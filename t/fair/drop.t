#!/usr/bin/perl

# A full queue: the last request of the key with the longest backlog is
# rejected for one of another key that comes before it. Its own node is told
# by a message. A request that would be the last itself is rejected.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $clock = Dsem::Clock->new($t, monotonic => 1);
my ($one, $two) = $clock->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_log_level info;
dsem_status 500 full=429;
location / {
    dsem api limit=1 queue=4 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /often {
    dsem often limit=1 queue=12 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub said { join ' ', @{ $_[0]->logged($_[1]) }{qw(status dsem_status)} }

my $holder = $one->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my @heavy;
for my $n (1 .. 4) {
    push @heavy, $one->begin("/?k=heavy&t=2&n=$n");
    wait_for { $t->state->waiting('api') == $n } 15, 'in the queue';
}

# the key with the backlog has no further place

my $more = $two->get('/?k=heavy');
is said($two, $more), '429 REJECTED', 'fifth request rejected';
ok !$_->done, 'others wait' for @heavy;

# another one has: the last of the backlog leaves

my $from = now;
my $light = $two->begin('/?k=light&t=2');
is said($one, $heavy[3]->wait), '429 REJECTED', 'last request rejected';
cmp_ok took($from), '<', 5, 'at once';
is $one->logged($heavy[3])->{dsem_key}, 'heavy', 'key in the log';
ok !$light->done, 'new request waits';
ok !$_->done, 'earlier requests wait' for @heavy[0 .. 2];
is $t->state->waiting('api'), 4, 'queue not longer than its bound';

# its owner is on the same worker as the new request

my $third = $one->begin('/?k=third&t=2');
is said($one, $heavy[2]->wait), '429 REJECTED', 'next request rejected';
ok !$third->done, 'another new request waits';
is $t->state->waiting('api'), 4, 'queue not longer than its bound';

$up->release_all;
is $_->wait->status, 200, 'all others served'
    for $holder, @heavy[0, 1], $light, $third;
is $up->peak, 1, 'limit reached, never exceeded';
is $up->started, 5, 'no rejected request at the backend';

# told by messages: checks, which come about once a second, do not come

my $often = $one->begin('/often?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'another holder';
my @backlog = map { $one->begin("/often?k=heavy&t=1&n=$_") } 1 .. 12;
wait_for { $t->state->waiting('often') == 12 } 15, 'a full queue';
$clock->stop;
my @others;
for my $n (1 .. 6) {
    push @others, $two->begin("/often?k=other$n&t=1");
    (pop @backlog)->wait;
}
pass 'told by messages';
$clock->go;
$up->release_all;
$_->wait for $often, @others, @backlog;
is scalar $_->grep_log(qr/counts differ/), 0, 'counts agree' for $one, $two;

$t->done;
