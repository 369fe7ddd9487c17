#!/usr/bin/perl

# Recipe "GPU servers": two servers with four slots each have one queue over two
# nodes; a slot that comes free, at any of them, is for a request that waits.

use lib 't/lib';
use Dsem::Recipe;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1 .. 2;

my $recipe = recipe('GPU servers', 'timeout=30s' => 'timeout=60s',
    map({ ("10.0.1.$_:8000" => $up[$_ - 1]->address) } 1 .. 2));
my ($limit) = $recipe =~ / limit=(\d+)\/server /;

my @fleet = $t->fleet(2, <<"EOF_CONF");
worker_processes 2;
$recipe
EOF_CONF

sub now_at { return join ' ', map { $_->now } @up }

my @all = map { $fleet[ $_ % 2 ]->begin('/v1/?hang=1') } 1 .. 20;
my $queued = @all - @up * $limit;
eventually { now_at() eq "$limit $limit" } 'all slots in use';
eventually { $t->state->waiting('gpus') == $queued } 'the others wait';

# one server is quick, the other one works on

for my $n (1 .. $queued) {
    $up[0]->release(1);
    wait_for { $up[0]->served == $n } 30, "request $n served";
    wait_for { $up[0]->now == $limit } 30, 'its slot taken';
}

is now_at(), "$limit $limit", 'all of the queue went to the free slots';
is $t->state->waiting('gpus'), 0, 'none waits';
is $up[1]->served, 0, 'while the other server was busy';

wait_for { $_->release_all for @up; !grep { !$_->done } @all } 30, 'the rest';
is $_->status, 200, 'request served' for @all;
is $_->peak, $limit, 'limit reached, never exceeded' for @up;

$t->done;
