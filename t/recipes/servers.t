#!/usr/bin/perl

# Recipe "A limit for each server": four servers that work on one request at a
# time get no second one from any of two nodes, and each has its own queue.

use lib 't/lib';
use Dsem::Recipe;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1 .. 4;

my $recipe = recipe('A limit for each server', 'timeout=30s' => 'timeout=60s',
    map({ ("10.0.1.$_:8000" => $up[$_ - 1]->address) } 1 .. 4));
my ($queue) = $recipe =~ / queue=(\d+) /;

my @fleet = $t->fleet(2, <<"EOF_CONF");
worker_processes 2;
$recipe
EOF_CONF

sub now_at { return map { $_->now } @up }
sub waiting {
    my $n = 0;
    $n += $t->state->waiting('gpu:' . $_->address) for @up;
    return $n;
}

my @all = map { $fleet[ $_ % 2 ]->begin('/generate/?hang=1') } 1 .. 40;
eventually { "@{[ now_at() ]}" eq '1 1 1 1' } 'each server has one request';
eventually { waiting() == @all - 4 } 'the others wait';
cmp_ok $queue, '>', 20, 'with room for uneven ones';

# a server that is free serves none of those

my $first = $up[0];
my $waiting = $t->state->waiting('gpu:' . $first->address);
wait_for { $first->release_all; $first->served == $waiting + 1 } 30,
    'the queue of a server';
is $first->now, 0, 'free';
is "@{[ (now_at())[1 .. 3] ]}", '1 1 1', 'while others are busy';
is waiting(), @all - 4 - $waiting, 'and requests wait for them';

wait_for { $_->release_all for @up; !grep { !$_->done } @all } 30, 'the rest';
is $_->status, 200, 'request served' for @all;
is $_->peak, 1, 'limit reached, never exceeded' for @up;

$t->done;
