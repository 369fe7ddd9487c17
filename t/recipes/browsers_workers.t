#!/usr/bin/perl

# Recipe "Headless browsers": the workers of a node count the sessions of a
# server together, so none has more than its max_conns.

use lib 't/lib';
use Dsem::Recipe;
use Dsem::Test;

# a worker that is frozen meanwhile keeps its session
my $t = Dsem::Test->new(lease => 60);
$t->redis;
my @up = map { $t->upstream } 1 .. 2;

my $recipe = recipe('Headless browsers',
    map({ ("10.0.1.$_:3000" => $up[$_ - 1]->address) } 1 .. 2));
my ($most) = $recipe =~ / max_conns=(\d+);/;

my $node = $t->node('n1', <<"EOF_CONF");
worker_processes 2;
$recipe
EOF_CONF

# an odd number at each worker: one more at the first server, if it counts alone

my @open;
for my $n ($most - 1, $most + 1) {
    my ($pid) = $node->freeze(($node->workers)[$n > $most]);
    my @more = map { session() } 1 .. $n;
    like $_->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 101/, 'a session'
        for @more;
    $node->thaw($pid);
    push @open, @more;
}
is join(' ', map { $_->now } @up), "$most $most", 'as many at each server';

$_->close for @open;
eventually { !grep { $_->now } @up } 'nothing left';

$t->done;

sub session {
    return $node->raw->send("GET /session HTTP/1.1\r\nHost: a\r\n"
        . "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
}
