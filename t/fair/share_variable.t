#!/usr/bin/perl

# "share" from a variable: of two keys with shares 1 and 4, both with more
# requests than permits, one has a permit in use and the other four, all the
# time. Of a key whose requests disagree the last one counts. An empty value is
# the default, 1.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $LIMIT = 5;
my $TURNS = $ENV{DSEM_LONG} ? 100 : 20;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

# one order in which Redis receives requests, so one worker
my $node = $clock->node('n1', <<'EOF_CONF');
worker_processes 1;
worker_connections 4096;
proxy_set_header X-Sem $arg_k;
map $arg_k $share {
    four 4;
    default "";
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem api limit=5 queue=1000 timeout=5m fair=$arg_k share=$share;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /sent {
        dsem sent limit=5 queue=1000 timeout=5m fair=$arg_k share=$arg_s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

wait_for { $t->state->subscribed == 1 } 15, 'to be told of grants';
# a worker serves its own next request while a reply is late: none ever is
$clock->stop;

# all costs are those of a request whose hold time is not known yet, so that
# the order does not depend on times

my @holders = map { $node->begin('/?k=holder&hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'the holders';

my @one = map { $node->begin('/?k=one&hang=1') } 1 .. $TURNS;
wait_for { $t->state->waiting('api') == $TURNS } 15, 'the first key waits';
my @four = map { $node->begin('/?k=four&hang=1') } 1 .. 4 * $TURNS;
wait_for { $t->state->waiting('api') == 5 * $TURNS } 15, 'both keys wait';

served_one_by_one(5 * $TURNS);
my @sem = map { $_->{sem} } in_order();
my %wrong;
# the second key is as new: it begins and ends a quarter of a turn later
for my $first (1 .. $#sem - $LIMIT) {
    my $one = grep { $_ eq 'one' } @sem[ $first .. $first + $LIMIT - 1 ];
    $wrong{$one}++ if $one != 1;
}
is_deeply \%wrong, {}, 'one permit of five for the share of one';
is scalar(@sem), 5 * $TURNS, 'all requests served';
is $_->wait->status, 200, 'served' for @holders, @one, @four;
is $up->peak, $LIMIT, 'limit reached, never exceeded';

# a key with 1, then 4, against a key with 1: its first ticket pays as much as
# one of the other key, each further one a quarter of it; the other one, which is
# as new, begins a quarter later

$up->reset;
@holders = map { $node->begin('/sent?k=holder&hang=1&s=') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'the holders';
my @turns = (asked('a', 1), map { asked('a', 4) } 1 .. 8);
push @turns, map { asked('b', '') } 1 .. 3;
served_one_by_one(scalar @turns);
is join('', map { $_->{sem} } in_order()), 'abaabaaaabaa',
    'the last share counts';
$_->wait for @holders, @turns;
$clock->go;

$t->done;

# Into the queue, one after the other.
sub asked {
    my ($key, $share) = @_;
    my $waiting = $t->state->waiting('sent');
    my $request = $node->begin("/sent?k=$key&s=$share&hang=1");
    wait_for { $t->state->waiting('sent') > $waiting } 15, 'a place';
    return $request;
}

# The oldest makes room for the next.
sub served_one_by_one {
    my ($n) = @_;
    for (1 .. $n) {
        my $started = $up->started;
        $up->release(1);
        wait_for { $up->started > $started } 15, 'the next request';
    }
    wait_for { $up->release_all; $up->now == 0 } 15, 'the last ones';
}

# Without the holders.
sub in_order {
    return grep { $_->{sem} ne 'holder' }
        sort { $a->{start} <=> $b->{start} } $up->log;
}
